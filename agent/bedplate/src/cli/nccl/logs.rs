//! Reads the logs of a job.

use std::io::ErrorKind;

use super::unpack::{PIECE, open};
use crate::cli::{CliError, Context as _, output};
use bedplate_base::terminal::brief;
use bedplate_nccl::log::{Log, Reader};

/// Number of pieces to read ahead.
const AHEAD: usize = 4;

/// Reads the logs of one or several jobs, in order; `-` is standard input. `also` gets every piece, with the index of its
/// file.
pub(in crate::cli) fn read_logs(
    files: &[String],
    also: &mut dyn FnMut(usize, &[u8]),
) -> Result<Log, CliError> {
    let mut reader = Reader::default();
    for (nth, (file, name)) in files.iter().zip(names(files)).enumerate() {
        if files[..nth].contains(file) {
            return Err(CliError::usage(format!("{name} is given twice")));
        }
        let mut feed = |piece: &[u8]| {
            reader.feed(piece);
            also(nth, piece);
        };
        let length = read(file, &mut feed).context(format!("cannot read log {name}"))?;
        if length == 0 && files.len() > 1 {
            output::warn(&format!("{name} is empty"));
        }
        reader.end_file();
    }
    Ok(reader.finish())
}

/// Returns the names of the logs in reports.
pub(in crate::cli) fn names(files: &[String]) -> Vec<String> {
    let name = |file: &String| if file == "-" { "stdin".to_owned() } else { brief(file, 200) };
    files.iter().map(name).collect()
}

/// Reads one file; its first bytes select the decoder. Another thread reads and decompresses it while this one parses:
/// each takes about as long. Returns the number of bytes.
fn read(file: &str, feed: &mut dyn FnMut(&[u8])) -> std::io::Result<u64> {
    let (full, pieces) = std::sync::mpsc::sync_channel::<Vec<u8>>(AHEAD);
    let (empty, used) = std::sync::mpsc::channel::<Vec<u8>>();
    std::thread::scope(|scope| {
        let source = scope.spawn(move || -> std::io::Result<()> {
            let mut unpacked = open(file)?;
            loop {
                let mut piece = used.try_recv().unwrap_or_default();
                piece.resize(PIECE, 0);
                match unpacked.read(&mut piece) {
                    Ok(0) => return Ok(()),
                    Ok(length) => piece.truncate(length),
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                }
                if full.send(piece).is_err() {
                    return Ok(());
                }
            }
        });
        let mut length = 0;
        for piece in pieces {
            length += piece.len() as u64;
            feed(&piece);
            // The other thread may have finished.
            let _ = empty.send(piece);
        }
        let done = source.join();
        done.unwrap_or_else(|_| Err(std::io::Error::other("reading was interrupted")))?;
        Ok(length)
    })
}
