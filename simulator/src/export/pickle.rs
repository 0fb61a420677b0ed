//! Writes Python's pickle format, protocol 2, as far as snapshots need it.
//!
//! Only opcodes that PyTorch's own reader in `MemoryViz.js` knows. Strings and shared lists are
//! written once and referred to by their memo number.
//!
//! Source: Python 3, `Lib/pickletools.py` (opcodes); PyTorch, `torch/utils/viz/MemoryViz.js`
//! (`unpickle`).

use std::collections::BTreeMap;

const PROTO: u8 = 0x80;
const PROTOCOL: u8 = 2;
const STOP: u8 = b'.';
const MARK: u8 = b'(';
const EMPTY_DICT: u8 = b'}';
const SETITEMS: u8 = b'u';
const EMPTY_LIST: u8 = b']';
const APPENDS: u8 = b'e';
const TUPLE2: u8 = 0x86;
const BINUNICODE: u8 = b'X';
const BININT1: u8 = b'K';
const BININT2: u8 = b'M';
const BININT: u8 = b'J';
const LONG1: u8 = 0x8a;
const NEWTRUE: u8 = 0x88;
const NEWFALSE: u8 = 0x89;
const BINFLOAT: u8 = b'G';
const BINPUT: u8 = b'q';
const LONG_BINPUT: u8 = b'r';
const BINGET: u8 = b'h';
const LONG_BINGET: u8 = b'j';

/// Elements appended at once, as Python's own pickler does: JavaScript readers spread them over
/// their stack.
const BATCH: usize = 1000;

/// A number under which a value was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memo(u32);

/// A pickle under construction.
pub(super) struct Pickle {
    bytes: Vec<u8>,
    texts: BTreeMap<String, Memo>,
    memos: u32,
    /// Elements in the current batch of each open list.
    batches: Vec<usize>,
}

impl Pickle {
    pub(super) fn new() -> Self {
        let bytes = Vec::from([PROTO, PROTOCOL]);
        Self { bytes, texts: BTreeMap::new(), memos: 0, batches: Vec::new() }
    }

    /// The finished pickle.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(STOP);
        self.bytes
    }

    /// Begins a dictionary with string keys: [`Self::key`] and a value for each, then
    /// [`Self::close_dict`].
    pub(super) fn open_dict(&mut self) {
        self.bytes.extend([EMPTY_DICT, MARK]);
    }

    pub(super) fn close_dict(&mut self) {
        self.bytes.push(SETITEMS);
    }

    /// Begins a list: [`Self::item`] and a value for each, then [`Self::close_list`].
    pub(super) fn open_list(&mut self) {
        self.bytes.extend([EMPTY_LIST, MARK]);
        self.batches.push(0);
    }

    /// The next element of a list.
    pub(super) fn item(&mut self) -> &mut Self {
        if let Some(in_batch) = self.batches.last_mut() {
            if *in_batch == BATCH {
                self.bytes.extend([APPENDS, MARK]);
                *in_batch = 0;
            }
            *in_batch += 1;
        }
        self
    }

    pub(super) fn close_list(&mut self) {
        self.batches.pop();
        self.bytes.push(APPENDS);
    }

    /// The next field of a dictionary.
    pub(super) fn key(&mut self, name: &str) -> &mut Self {
        self.text(name);
        self
    }

    pub(super) fn text(&mut self, text: &str) {
        if let Some(memo) = self.texts.get(text) {
            self.recall(*memo);
            return;
        }
        // Longer texts than 4 GiB do not occur.
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.bytes.push(BINUNICODE);
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend(text.as_bytes());
        let memo = self.memorize();
        self.texts.insert(text.to_owned(), memo);
    }

    pub(super) fn int(&mut self, value: u64) {
        let bytes = value.to_le_bytes();
        if let Ok(value) = u8::try_from(value) {
            self.bytes.extend([BININT1, value]);
        } else if let Ok(value) = u16::try_from(value) {
            self.bytes.push(BININT2);
            self.bytes.extend(value.to_le_bytes());
        } else if let Ok(value) = i32::try_from(value) {
            self.bytes.push(BININT);
            self.bytes.extend(value.to_le_bytes());
        } else {
            // Two's complement, little-endian: one byte more where the top bit would be a sign.
            let needed = 8 - value.leading_zeros() as usize / 8;
            let sign = bytes[needed - 1] >> 7;
            let length = u8::try_from(needed).unwrap_or(8) + sign;
            self.bytes.extend([LONG1, length]);
            self.bytes.extend(&bytes[..needed]);
            if sign == 1 {
                self.bytes.push(0);
            }
        }
    }

    /// −1: what the framework writes for "no limit".
    pub(super) fn minus_one(&mut self) {
        self.bytes.push(BININT);
        self.bytes.extend((-1_i32).to_le_bytes());
    }

    pub(super) fn float(&mut self, value: f64) {
        self.bytes.push(BINFLOAT);
        self.bytes.extend(value.to_be_bytes());
    }

    pub(super) fn bool(&mut self, value: bool) {
        self.bytes.push(if value { NEWTRUE } else { NEWFALSE });
    }

    /// A pair of two numbers.
    pub(super) fn pair(&mut self, first: u64, second: u64) {
        self.int(first);
        self.int(second);
        self.bytes.push(TUPLE2);
    }

    /// Stores the value written last; it can be written again by [`Self::recall`].
    pub(super) fn memorize(&mut self) -> Memo {
        let memo = self.memos;
        self.memos += 1;
        if let Ok(memo) = u8::try_from(memo) {
            self.bytes.extend([BINPUT, memo]);
        } else {
            self.bytes.push(LONG_BINPUT);
            self.bytes.extend(memo.to_le_bytes());
        }
        Memo(memo)
    }

    /// Writes a stored value again, as the same object.
    pub(super) fn recall(&mut self, Memo(memo): Memo) {
        if let Ok(memo) = u8::try_from(memo) {
            self.bytes.extend([BINGET, memo]);
        } else {
            self.bytes.push(LONG_BINGET);
            self.bytes.extend(memo.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let check = |write: &dyn Fn(&mut Pickle), expect: &[u8]| {
            let mut pickle = Pickle::new();
            write(&mut pickle);
            let bytes = pickle.finish();
            assert_eq!(bytes, [&[0x80, 2], expect, b"."].concat());
        };
        check(&|p| p.int(255), &[b'K', 255]);
        check(&|p| p.int(256), &[b'M', 0, 1]);
        check(&|p| p.int(65536), &[b'J', 0, 0, 1, 0]);
        check(&|p| p.int(0x7fff_ffff), &[b'J', 255, 255, 255, 127]);
        check(&|p| p.int(0x8000_0000), &[0x8a, 5, 0, 0, 0, 128, 0]);
        check(&|p| p.int(0x7f_0000_0000), &[0x8a, 5, 0, 0, 0, 0, 127]);
        check(&|p| p.int(u64::MAX), &[0x8a, 9, 255, 255, 255, 255, 255, 255, 255, 255, 0]);
        check(&|p| p.pair(1, 2), &[b'K', 1, b'K', 2, 0x86]);
        check(
            &|p| {
                p.open_dict();
                p.key("a").open_list();
                p.item().bool(true);
                p.item().bool(false);
                p.close_list();
                p.key("b").text("a");
                p.close_dict();
            },
            b"}(X\x01\0\0\0aq\0](\x88\x89eX\x01\0\0\0bq\x01h\0u",
        );
    }

    #[test]
    fn long_lists_are_appended_in_batches() {
        let mut pickle = Pickle::new();
        pickle.open_list();
        for _ in 0..2500 {
            pickle.item().bool(true);
        }
        pickle.close_list();
        let bytes = pickle.finish();
        let count = |opcode: u8| bytes.split(|byte| *byte == opcode).count() - 1;
        assert_eq!((count(APPENDS), count(MARK), count(NEWTRUE)), (3, 3, 2500));
    }
}
