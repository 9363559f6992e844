//! The program's interface for operators and scripts: its output, the stream it goes to, and the exit status. Transcripts
//! are in `tests/data/cli/*.txt`; `BLESS=1 cargo test -p bedplate-tests --test cli` rewrites them.

mod apply;
mod bus;
mod cost;
mod cufile;
mod demo;
mod doctor;
mod edit;
mod files;
mod foreign_profile;
mod foreign_state;
mod hostile;
mod init;
mod json;
mod nccl;
mod nccl_job;
mod nccl_log;
mod options;
mod owed;
mod ran;
mod redacted;
mod render;
mod render_jobs;
mod repeat;
mod report;
mod revert_owed;
mod seal;
mod session;
mod special_files;
mod streams;
mod topology;
mod transcripts;
mod tuned;
mod verify;
mod verify_image;
mod without;
