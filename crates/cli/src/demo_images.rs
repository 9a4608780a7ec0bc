//! The images of `npcov demo`, as they are packed into the program: a third smaller than npz files of them.
//!
//! Grey levels follow each other, each as five bits, the largest first. A bit is told by an arithmetic code, by how often
//! it was set so far where the pixels around looked alike. `scripts/make_demo.py` packs.

/// Height and width of the images.
pub(crate) const SIDE: usize = 28;
/// Pixels of an image.
pub(crate) const PIXELS: usize = SIDE * SIDE;
/// Bits of a grey level, and what a level is in a byte.
const BITS: usize = 5;
const LEVELS: usize = 1 << BITS;
const STEP: u8 = 8;
/// Bits that are remembered of the same surroundings.
const REMEMBERED: u32 = 127;

/// The bytes of so many images.
pub(crate) fn unpack(packed: &[u8], images: usize) -> Vec<u8> {
    let mut code = Decoder::new(packed);
    let mut chances = Chances::new();
    let mut pixels = Vec::with_capacity(images * PIXELS);
    let mut levels = [0; PIXELS];
    for _ in 0..images {
        for at in 0..PIXELS {
            let chances = chances.around(&levels, at);
            let mut bits = 1;
            for _ in 0..BITS {
                bits = 2 * bits + usize::from(code.bit(&mut chances[bits]));
            }
            levels[at] = (bits - LEVELS) as u8;
        }
        pixels.extend(levels.map(|level| STEP * level));
    }
    pixels
}

/// How often bits were set.
struct Chances(Vec<[Chance; LEVELS]>);

impl Chances {
    fn new() -> Chances {
        Chances(vec![[Chance::EVEN; LEVELS]; LEVELS * LEVELS])
    }

    /// Those of a pixel, by the level that its neighbours let expect, and by how much they differ.
    fn around(&mut self, levels: &[u8; PIXELS], at: usize) -> &mut [Chance; LEVELS] {
        let (row, column) = (at / SIDE, at % SIDE);
        let level = |there: bool, back: usize| match there {
            true => i32::from(levels[at - back]),
            false => 0,
        };
        let west = level(column > 0, 1);
        let north = level(row > 0, SIDE);
        let north_west = level(row > 0 && column > 0, SIDE + 1);
        let north_east = level(row > 0 && column + 1 < SIDE, SIDE - 1);
        let (low, high) = (west.min(north), west.max(north));
        let expected = (west + north - north_west).clamp(low, high);
        let differ = [west - north_west, north - north_west, north - north_east];
        let differ: i32 = differ.map(i32::abs).into_iter().sum();
        &mut self.0[expected as usize * LEVELS + (differ as usize).min(LEVELS - 1)]
    }
}

/// How likely a bit is set, of 2^16, and how many were seen.
#[derive(Clone, Copy)]
struct Chance {
    set: u32,
    seen: u32,
}

impl Chance {
    const EVEN: Chance = Chance {
        set: 1 << 15,
        seen: 0,
    };

    /// Learns from a bit. It stays possible that the next one is another.
    fn learn(&mut self, bit: bool) {
        let weight = 2 * self.seen + 3;
        match bit {
            true => self.set += 2 * (0xffff - self.set) / weight,
            false => self.set -= 2 * self.set / weight,
        }
        self.seen = REMEMBERED.min(self.seen + 1);
    }
}

/// Reads an arithmetic code: a number between two others, of which each bit takes a part.
struct Decoder<'a> {
    bytes: &'a [u8],
    low: u32,
    high: u32,
    number: u32,
}

impl<'a> Decoder<'a> {
    fn new(bytes: &'a [u8]) -> Decoder<'a> {
        let mut decoder = Decoder {
            bytes,
            low: 0,
            high: u32::MAX,
            number: 0,
        };
        (0..4).for_each(|_| decoder.read());
        decoder
    }

    fn bit(&mut self, chance: &mut Chance) -> bool {
        let middle = middle(self.low, self.high, chance);
        let bit = self.number <= middle;
        match bit {
            true => self.high = middle,
            false => self.low = middle + 1,
        }
        chance.learn(bit);
        while (self.low ^ self.high) >> 24 == 0 {
            self.low <<= 8;
            self.high = self.high << 8 | 0xff;
            self.read();
        }
        bit
    }

    /// The next byte; zero behind the last.
    fn read(&mut self) {
        let (first, rest) = self.bytes.split_first().unwrap_or((&0, &[]));
        self.number = self.number << 8 | u32::from(*first);
        self.bytes = rest;
    }
}

/// The last number that stands for a bit that is set.
fn middle(low: u32, high: u32, chance: &Chance) -> u32 {
    low + ((u64::from(high - low) * u64::from(chance.set)) >> 16) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The other side of [`unpack`].
    fn pack(pixels: &[u8]) -> Vec<u8> {
        let (mut low, mut high, mut packed) = (0, u32::MAX, Vec::new());
        let mut chances = Chances::new();
        for image in pixels.as_chunks::<PIXELS>().0 {
            let levels = image.map(|pixel| pixel / STEP);
            for at in 0..PIXELS {
                let chances = chances.around(&levels, at);
                let coded = LEVELS + usize::from(levels[at]);
                for place in (0..BITS).rev() {
                    let chance = &mut chances[coded >> (place + 1)];
                    let (bit, middle) = (coded >> place & 1 == 1, middle(low, high, chance));
                    match bit {
                        true => high = middle,
                        false => low = middle + 1,
                    }
                    chance.learn(bit);
                    while (low ^ high) >> 24 == 0 {
                        packed.push((low >> 24) as u8);
                        low <<= 8;
                        high = high << 8 | 0xff;
                    }
                }
            }
        }
        packed.extend(low.to_be_bytes());
        packed
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let grey = |i: usize| STEP * (((i % PIXELS) * i / 97) % LEVELS) as u8;
        let pixels: Vec<u8> = (0..3 * PIXELS).map(grey).collect();
        assert!(unpack(&pack(&pixels), 3) == pixels);
        let white = vec![248; 2 * PIXELS];
        let packed = pack(&white);
        assert!(packed.len() < 100, "{}", packed.len());
        assert!(unpack(&packed, 2) == white);
        // Whatever the bytes.
        assert_eq!(unpack(&[], 1).len(), PIXELS);
    }
}
