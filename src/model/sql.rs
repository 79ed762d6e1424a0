//! Text of SQL statements as bytes: identifiers and literals may be in any server encoding.

use std::fmt;

/// A statement under construction. `write!` adds ASCII text; the methods add quoted parts.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Sql(Vec<u8>);

impl Sql {
    pub fn new() -> Sql {
        Sql::default()
    }

    /// Adds text as it is.
    pub fn push(&mut self, text: &str) -> &mut Sql {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// Adds bytes as they are.
    pub fn push_bytes(&mut self, text: &[u8]) -> &mut Sql {
        self.0.extend_from_slice(text);
        self
    }

    /// Adds an identifier, always in double quotes, so that no list of keywords is needed.
    pub fn push_ident(&mut self, name: &[u8]) -> &mut Sql {
        self.0.push(b'"');
        for &byte in name {
            if byte == b'"' {
                self.0.push(b'"');
            }
            self.0.push(byte);
        }
        self.0.push(b'"');
        self
    }

    /// Adds `"schema"."name"`.
    pub fn push_qualified(&mut self, schema: &[u8], name: &[u8]) -> &mut Sql {
        self.push_ident(schema).push(".").push_ident(name)
    }

    /// Adds a string constant that reads the same with standard_conforming_strings on or off.
    pub fn push_literal(&mut self, value: &[u8]) -> &mut Sql {
        if value.contains(&b'\\') {
            self.0.push(b'E');
        }
        self.0.push(b'\'');
        for &byte in value {
            if byte == b'\'' || byte == b'\\' {
                self.0.push(byte);
            }
            self.0.push(byte);
        }
        self.0.push(b'\'');
        self
    }

    /// Adds `items` with `separator` between them.
    pub fn push_list<T>(
        &mut self,
        separator: &str,
        items: impl IntoIterator<Item = T>,
        mut add: impl FnMut(&mut Sql, T),
    ) -> &mut Sql {
        for (position, item) in items.into_iter().enumerate() {
            if position > 0 {
                self.push(separator);
            }
            add(self, item);
        }
        self
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// For libpq, which wants a terminator.
    pub fn to_c_string(&self) -> Result<std::ffi::CString, Vec<u8>> {
        std::ffi::CString::new(self.as_bytes())
            .map_err(|_| b"statement text holds a NUL character".to_vec())
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// The first `limit` bytes, cut at a place that does not split a UTF-8 character, with `...` where cut.
    pub fn shortened(&self, limit: usize) -> Vec<u8> {
        if self.0.len() <= limit {
            return self.0.clone();
        }
        let mut end = limit;
        while end > 0 && (self.0[end] & 0xC0) == 0x80 {
            end -= 1;
        }
        let mut text = self.0[..end].to_vec();
        text.extend_from_slice(b"...");
        text
    }
}

impl From<&str> for Sql {
    fn from(text: &str) -> Sql {
        Sql(text.as_bytes().to_vec())
    }
}

impl From<Vec<u8>> for Sql {
    fn from(text: Vec<u8>) -> Sql {
        Sql(text)
    }
}

impl fmt::Write for Sql {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text);
        Ok(())
    }
}

impl fmt::Debug for Sql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Sql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_quoted() {
        let mut sql = Sql::new();
        sql.push_qualified(b"My \"schema", b"t");
        assert_eq!(sql.as_bytes(), b"\"My \"\"schema\".\"t\"");
    }

    #[test]
    fn literals_survive_quotes_and_backslashes() {
        let mut sql = Sql::new();
        sql.push_literal(b"it's").push(" ").push_literal(b"a\\'b");
        assert_eq!(sql.as_bytes(), b"'it''s' E'a\\\\''b'");
    }

    #[test]
    fn shortening_keeps_characters_whole() {
        let sql = Sql::from("aé");
        assert_eq!(sql.shortened(2), b"a...");
        assert_eq!(sql.shortened(3), "aé".as_bytes());
    }
}
