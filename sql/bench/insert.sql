\timing on
INSERT INTO :"parent".rows SELECT * FROM :source;
