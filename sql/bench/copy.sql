\timing on
COPY :"parent".rows FROM :'file' (FORMAT csv);
