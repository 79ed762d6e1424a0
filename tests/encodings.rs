//! Coordinators and shards whose databases have different encodings.

mod common;

use common::*;

/// Rows with letters outside of ASCII, in names as well as values.
#[test]
fn databases_of_other_encodings() {
    for (here, there) in [("LATIN1", "UTF8"), ("LATIN1", "LATIN1"), ("UTF8", "LATIN1")] {
        let coordinator = Setup::new().initdb(&format!("--encoding={here}")).start();
        let shard = Setup::new().initdb(&format!("--encoding={there}")).start();
        // The client speaks UTF8 to both.
        let (mut client, mut remote) = (coordinator.simple(), shard.simple());
        remote
            .run("CREATE TABLE \"Größe\" (nr int PRIMARY KEY, \"naïve\" text, a text[])")
            .expect_ok();
        client.run("CREATE EXTENSION shard_fdw").expect_ok();
        client
            .run(&create_server("süd", shard.port(), "batch_size '3'"))
            .expect_ok();
        client
            .run("CREATE FOREIGN TABLE \"Größe\" (nr int, \"naïve\" text, a text[]) SERVER süd OPTIONS (schema_name 'public')")
            .expect_ok();
        let what = format!("{here} to {there}");
        let insert = "INSERT INTO \"Größe\" SELECT g, 'é' || g, ARRAY['ü', NULL, 'ß'] FROM generate_series(1, 10) g";
        assert_eq!(client.run(insert).tag(), "INSERT 0 10", "{what}");
        let copy = client.copy_in(
            "COPY \"Größe\" FROM STDIN",
            "11\tÿþ\t{ø}\n12\tæ\t\\N\n".as_bytes(),
        );
        assert_eq!(copy.tag(), "COPY 2", "{what}");
        let update = "UPDATE \"Größe\" SET \"naïve\" = 'Å' WHERE \"naïve\" = 'é3' AND random() < 2 RETURNING nr, \"naïve\"";
        assert_eq!(client.run(update).lines(), ["3|Å"], "{what}");
        let all = "SELECT nr, \"naïve\", a FROM \"Größe\" WHERE nr IN (1, 3, 11, 12) OR \"naïve\" = 'é5' ORDER BY nr";
        let rows = [
            "1|é1|{ü,NULL,ß}",
            "3|Å|{ü,NULL,ß}",
            "5|é5|{ü,NULL,ß}",
            "11|ÿþ|{ø}",
            "12|æ|",
        ];
        assert_eq!(client.run(all).lines(), rows, "{what}");
        assert_eq!(remote.run(all).lines(), rows, "{what}");
        // The shard's message, and names in it, arrive readable.
        let error = client
            .run("INSERT INTO \"Größe\" VALUES (13, 'x'), (1, 'é')")
            .expect_error();
        assert_eq!(error.table(), "Größe", "{what}");
        assert_eq!(error.constraint(), "Größe_pkey", "{what}");
        assert!(error.context().contains("süd"), "{what}: {error:?}");
        // What has no letter on the other side is refused, and nothing of it stored.
        if here != there {
            let (sql, sender) = match here {
                "UTF8" => (
                    "INSERT INTO \"Größe\" VALUES (14, 'ok'), (15, '€')",
                    &mut client,
                ),
                _ => {
                    remote
                        .run("INSERT INTO \"Größe\" VALUES (16, '€')")
                        .expect_ok();
                    ("SELECT * FROM \"Größe\"", &mut client)
                }
            };
            assert_eq!(sender.run(sql).expect_error().sqlstate(), "22P05", "{what}");
        }
        assert_eq!(
            client.value("SELECT count(*) FROM \"Größe\" WHERE nr IN (13, 14, 15)"),
            "0",
            "{what}"
        );
    }
}
