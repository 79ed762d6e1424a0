-- One Markdown table of the work :work. Ratios are taken round by round, since both sides of a round met the same machine.
WITH measured AS (
    SELECT candidate, round, ms / rows * :rows AS ms, rows < :rows AS scaled
    FROM result WHERE work = :'work'
), compared AS (
    SELECT m.candidate, m.ms, m.scaled, m.ms / local.ms AS to_local, m.ms / ours.ms AS to_ours
    FROM measured m
    LEFT JOIN measured local ON local.round = m.round AND local.candidate = 'local partitions'
    LEFT JOIN measured ours ON ours.round = m.round AND ours.candidate = 'shard_fdw'
), summed AS (
    SELECT candidate, count(*) AS rounds, bool_or(scaled) AS scaled,
        min(ms) AS ms_min, percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) AS ms_mid, max(ms) AS ms_max,
        min(to_local) AS local_min, percentile_cont(0.5) WITHIN GROUP (ORDER BY to_local) AS local_mid,
        max(to_local) AS local_max,
        min(to_ours) AS ours_min, percentile_cont(0.5) WITHIN GROUP (ORDER BY to_ours) AS ours_mid,
        max(to_ours) AS ours_max
    FROM compared GROUP BY candidate
)
SELECT line FROM (
    SELECT 1 AS part, 0::float8 AS place,
        '| ' || :'title' || ' | seconds (spread) | times local partitions (spread) | times shard_fdw (spread) |' AS line
    UNION ALL
    SELECT 2, 0, '|---|---|---|---|'
    UNION ALL
    SELECT 3, CASE candidate WHEN 'local partitions' THEN -2 WHEN 'shard_fdw' THEN -1 ELSE 0 END,
        format('| %s%s | %s (%s–%s) | %s | %s |', candidate, CASE WHEN scaled THEN ' ¹' END,
            to_char(ms_mid / 1000, 'FM9990.00'), to_char(ms_min / 1000, 'FM9990.00'),
            to_char(ms_max / 1000, 'FM9990.00'),
            CASE WHEN candidate = 'local partitions' THEN '1'
                ELSE format('%s (%s–%s)', to_char(local_mid, 'FM9990.00'), to_char(local_min, 'FM9990.00'),
                    to_char(local_max, 'FM9990.00')) END,
            CASE WHEN candidate = 'shard_fdw' THEN '1'
                ELSE format('%s (%s–%s)', to_char(ours_mid, 'FM9990.00'), to_char(ours_min, 'FM9990.00'),
                    to_char(ours_max, 'FM9990.00')) END)
    FROM summed
) lines ORDER BY part, place, length(line) = 0, line;
