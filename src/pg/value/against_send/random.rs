//! Random values.

/// A small generator of random numbers (xorshift64*): the same in each run.
pub struct Random(pub u64);

impl Random {
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// From 0, less than `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() >> 16) as usize % limit
    }

    pub fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }

    fn digits(&mut self, count: usize) -> String {
        (0..count)
            .map(|_| char::from(b"0001234567899"[self.below(13)]))
            .collect()
    }

    /// A decimal number with a point in it or not.
    pub fn decimal(&mut self, longest: usize) -> String {
        let sign = self.pick(&["", "-"]);
        let (before, after) = (self.below(longest), 1 + self.below(longest));
        let before = self.digits(before);
        match self.below(3) {
            0 => format!("{sign}{before}0"),
            1 => format!("{sign}0.{}", self.digits(after)),
            _ => format!("{sign}{before}7.{}", self.digits(after)),
        }
    }

    /// A JSON string, with characters of all kinds.
    pub fn string(&mut self, longest: usize) -> String {
        let mut text = String::from('"');
        for _ in 0..self.below(longest) {
            match self.below(40) {
                0 => text.push_str("\\\""),
                1 => text.push_str("\\\\"),
                2 => text.push_str(&format!("\\u{:04x}", 1 + self.below(0x1F))),
                3 => text.push_str(self.pick(&["\\n", "\\r", "\\t", "\\b", "\\f", "/"])),
                4 => text.push_str(self.pick(&["é", "ß", "€", "語", "𝄞", "\u{7f}", "\u{2028}"])),
                _ => text.push(char::from(b'#' + self.below(50) as u8)),
            }
        }
        text.push('"');
        text
    }

    /// A JSON document of about this many values.
    pub fn json(&mut self, size: usize) -> String {
        if size <= 1 {
            return match self.below(8) {
                0 => "null".into(),
                1 => self.pick(&["true", "false"]).into(),
                2 => self.pick(&["[]", "{}"]).into(),
                3 => format!("{}e{}", self.below(1000), self.below(60) as i32 - 30),
                4 | 5 => format!("{}{}", 1 + self.below(9), self.decimal(12).replace('-', "")),
                _ => self.string(30),
            };
        }
        let mut left = size - 1;
        let is_object = self.below(2) == 0;
        let mut items = Vec::new();
        while left > 0 {
            let part = match self.below(4) {
                0 => 1 + self.below(left),
                _ => 1,
            };
            left -= part;
            let value = self.json(part);
            items.push(if is_object {
                format!("{}:{value}", self.string(12))
            } else {
                value
            });
        }
        let items = items.join(",");
        if is_object {
            format!("{{{items}}}")
        } else {
            format!("[{items}]")
        }
    }
}
