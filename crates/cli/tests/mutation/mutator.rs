//! Changes to files: the same ones for the same seed.

/// Numbers that readers go wrong on: limits of types, sizes that multiply to nothing or to everything.
pub(crate) const NUMBERS: [u64; 28] = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    13,
    16,
    32,
    127,
    128,
    255,
    256,
    1000,
    1025,
    65_535,
    65_536,
    1 << 20,
    1 << 24,
    1 << 27,
    (1 << 31) - 1,
    1 << 31,
    1 << 32,
    1 << 40,
    i64::MAX as u64,
    u64::MAX - 1,
    u64::MAX,
];

/// The generator SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    /// For one mutant of one reader.
    pub(crate) fn new(reader: &str, number: u64) -> Random {
        // FNV-1a keeps readers apart.
        let start = 0xcbf2_9ce4_8422_2325;
        let name = reader.bytes().fold(start, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Random(name ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Below `end`, or 0 where that is 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % (end as u64).max(1)) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn choose<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// One of [`NUMBERS`], or any.
    pub(crate) fn number(&mut self) -> u64 {
        match self.one_in(6) {
            true => self.next() >> self.below(64),
            false => *self.choose(&NUMBERS),
        }
    }
}

/// One to three changes of bytes anywhere.
pub(crate) fn change_bytes(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(3) {
        change_once(random, bytes);
    }
}

fn change_once(random: &mut Random, bytes: &mut Vec<u8>) {
    let len = bytes.len();
    let at = random.below(len);
    match random.below(8) {
        0 => bytes.truncate(at),
        1 => {
            let some: Vec<u8> = (0..=random.below(16))
                .map(|_| random.next() as u8)
                .collect();
            bytes.splice(at..at, some);
        }
        2 => {
            let end = (at + 1 + random.below(32)).min(len);
            bytes.drain(at.min(end)..end);
        }
        3 => {
            let end = (at + 1 + random.below(64)).min(len);
            let again = bytes[at.min(end)..end].to_vec();
            bytes.splice(at..at, again);
        }
        4 => {
            let number = random.number();
            let width = 1 << random.below(4);
            let mut shape = number.to_le_bytes()[..width].to_vec();
            if random.one_in(2) {
                shape.reverse();
            }
            for (place, byte) in bytes.iter_mut().skip(at).zip(shape) {
                *place = byte;
            }
        }
        5 => bytes
            .iter_mut()
            .skip(at)
            .take(1)
            .for_each(|byte| *byte = random.next() as u8),
        _ => bytes
            .iter_mut()
            .skip(at)
            .take(1)
            .for_each(|byte| *byte ^= 1 << random.below(8)),
    }
}

/// Changes of a text: of characters, words and numbers in it.
pub(crate) fn change_text(random: &mut Random, text: &str, words: &[&str]) -> String {
    let mut text = text.to_owned();
    for _ in 0..=random.below(3) {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        // The places of words and of what stands between them.
        let mut places = vec![0];
        let mut last = None;
        for (at, c) in text.char_indices() {
            if last.is_some_and(|last| !(is_part(last) && is_part(c))) {
                places.push(at);
            }
            last = Some(c);
        }
        places.push(text.len());
        let token = random.below(places.len() - 1);
        let range = places[token]..places[token + 1];
        let with = match random.below(5) {
            0 => String::new(),
            1 => text[range.clone()].repeat(2),
            2 => random.number().to_string(),
            3 => format!("{}{}", random.choose(words), &text[range.clone()]),
            _ => (*random.choose(words)).to_owned(),
        };
        text.replace_range(range, &with);
    }
    text
}
