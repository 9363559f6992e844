//! Process set-up and exit status, nothing else.

fn main() -> std::process::ExitCode {
    bedplate::cli::main()
}
