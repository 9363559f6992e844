//! Input files, plain or compressed by gzip or zstd, with a progress display.

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
    let start: Vec<u8> = source.fill_buf()?.iter().take(4).copied().collect();
    Ok(match start.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
        // pzstd writes a skippable frame before each data frame.
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
            Box::new(Frames::Between(source))
        }
        _ => Box::new(source),
    })
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
