//! Input files, plain or compressed by gzip or zstd, in UTF-8 or UTF-16, with a progress display.

use std::fs::File;
use std::io::{BufRead, BufReader, Error, ErrorKind, IsTerminal as _, Read, Result, Write as _};
use std::path::Path;

use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// Bytes per read.
pub(crate) const PIECE: usize = 256 << 10;
/// Larger files show progress.
const LARGE: u64 = 64 << 20;

/// Opens a file for reading its decompressed content; `-` is standard input.
///
/// # Errors
/// If the file cannot be opened, or is compressed and its start is damaged. Later damage is an error of reading.
pub(crate) fn open(file: &str) -> Result<Box<dyn Read>> {
    let (source, length): (Box<dyn Read>, u64) = match file {
        "-" => (Box::new(std::io::stdin()), 0),
        _ => {
            let open = File::open(Path::new(file))?;
            let length = open.metadata()?.len();
            (Box::new(open), length)
        }
    };
    let mut source =
        BufReader::with_capacity(PIECE, ProgressReader { source, read: 0, length, shown: 0 });
    let start: Vec<u8> = source.fill_buf()?.iter().take(6).copied().collect();
    let packed = |by: &str, command: &str| {
        let text =
            format!("compressed by {by}: run `{command} -dc FILE`, and pass its output as `-`");
        Err(Error::new(ErrorKind::InvalidData, text))
    };
    Ok(match start.as_slice() {
        [0xfd, b'7', b'z', b'X', b'Z', 0] => return packed("xz", "xz"),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41] => return packed("bzip2", "bzip2"),
        // As PowerShell writes files.
        [0xff, 0xfe, ..] => Box::new(Utf16Reader::new(source, u16::from_le_bytes)),
        [0xfe, 0xff, ..] => Box::new(Utf16Reader::new(source, u16::from_be_bytes)),
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
        // pzstd writes a skippable frame before each data frame.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            Box::new(Frames::Between(source))
        }
        _ => Box::new(source),
    })
}

/// Reader that converts UTF-16 to UTF-8.
struct Utf16Reader<R> {
    source: R,
    /// Converts two bytes.
    unit: fn([u8; 2]) -> u16,
    /// First half of a surrogate pair.
    high: Option<u16>,
    /// Converted bytes that were not returned yet.
    ready: Vec<u8>,
}

impl<R: BufRead> Utf16Reader<R> {
    fn new(source: R, unit: fn([u8; 2]) -> u16) -> Self {
        Self { source, unit, high: None, ready: Vec::new() }
    }

    /// Converts the next piece. Returns whether there was one; an odd byte at the end is dropped.
    fn convert(&mut self) -> Result<bool> {
        let mut piece = vec![0; PIECE];
        let mut length = 0;
        while length < piece.len() {
            match self.source.read(&mut piece[length..]) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let units = piece[..length].chunks_exact(2).map(|pair| (self.unit)([pair[0], pair[1]]));
        let mut units: Vec<u16> = self.high.take().into_iter().chain(units).collect();
        if length == PIECE && units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
            self.high = units.pop();
        }
        let text = String::from_utf16_lossy(&units);
        self.ready = text.trim_start_matches('\u{feff}').as_bytes().to_vec();
        Ok(!units.is_empty())
    }
}

impl<R: BufRead> Read for Utf16Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        while self.ready.is_empty() {
            if !self.convert()? {
                return Ok(0);
            }
        }
        let length = buffer.len().min(self.ready.len());
        buffer[..length].copy_from_slice(&self.ready[..length]);
        self.ready.drain(..length);
        Ok(length)
    }
}

/// Frames of a zstd file in sequence. A log that is appended to has several (RFC 8878, §3.1).
enum Frames<R: BufRead> {
    Between(R),
    Within(Box<StreamingDecoder<R, FrameDecoder>>),
    Done,
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            *self = match std::mem::replace(self, Frames::Done) {
                Frames::Done => return Ok(0),
                Frames::Within(mut decoder) => {
                    let length = decoder.read(buffer)?;
                    if length > 0 || buffer.is_empty() {
                        *self = Frames::Within(decoder);
                        return Ok(length);
                    }
                    Frames::Between(decoder.into_inner())
                }
                Frames::Between(mut source) => match source.fill_buf()?.first() {
                    None => return Ok(0),
                    Some(0x50..=0x5f) => {
                        skip(&mut source)?;
                        Frames::Between(source)
                    }
                    Some(_) => {
                        let decoder = StreamingDecoder::new(source);
                        let decoder =
                            decoder.map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
                        Frames::Within(Box::new(decoder))
                    }
                },
            };
        }
    }
}

/// Skips a skippable frame: four bytes of magic number, four bytes of length, then the content.
fn skip(source: &mut impl Read) -> Result<()> {
    let mut head = [0; 8];
    source.read_exact(&mut head)?;
    let [_, b, c, d, length @ ..] = head;
    if [b, c, d] != [0x2a, 0x4d, 0x18] {
        return Err(Error::new(ErrorKind::InvalidData, "invalid data after a zstd frame"));
    }
    let length = u64::from(u32::from_le_bytes(length));
    match std::io::copy(&mut source.take(length), &mut std::io::sink())? {
        read if read == length => Ok(()),
        _ => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// Reader that shows the progress of a large file on a terminal.
struct ProgressReader<R> {
    source: R,
    read: u64,
    length: u64,
    shown: u64,
}

impl<R: Read> Read for ProgressReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let length = self.source.read(buffer)?;
        self.read += length as u64;
        if self.length > LARGE && std::io::stderr().is_terminal() {
            let percent = self.read.saturating_mul(100) / self.length;
            if percent > self.shown || length == 0 {
                self.shown = percent;
                let end = if length == 0 { "\r\u{1b}[K" } else { "" };
                // The progress display is not essential.
                let _ = write!(std::io::stderr(), "\rreading {percent} %{end}");
            }
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        Frames::Between(bytes).read_to_end(&mut out).map(|_| out)
    }

    #[test]
    fn utf16_is_converted() {
        let text = format!("\u{feff}n\u{f6}de \u{1f40c} {}\n", "\u{1f40c}x".repeat(PIECE));
        for (unit, bytes) in [
            (u16::from_le_bytes as fn([u8; 2]) -> u16, u16::to_le_bytes as fn(u16) -> [u8; 2]),
            (u16::from_be_bytes, u16::to_be_bytes),
        ] {
            let encoded: Vec<u8> = text.encode_utf16().flat_map(bytes).chain([b'x']).collect();
            let mut out = String::new();
            Utf16Reader::new(encoded.as_slice(), unit).read_to_string(&mut out).unwrap();
            assert!(out == text[3..]);
        }
    }

    #[test]
    fn every_frame_is_read() {
        let frame = |text: &[u8]| {
            ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
        };
        let skipped = [0x51, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, b'x', b'y', b'z'];
        let all = [&skipped[..], &frame(b"one\n"), &skipped, &frame(b"two\n"), &skipped].concat();
        assert_eq!(read(&all).unwrap(), b"one\ntwo\n");
        for damaged in [&all[..all.len() - 1], &[&all[..], b"rest"].concat()] {
            assert!(read(damaged).is_err());
        }
    }
}
