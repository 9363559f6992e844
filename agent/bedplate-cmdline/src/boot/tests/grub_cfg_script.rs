//! Scripts in GRUB configurations: branches, functions, and unsupported code.

use super::super::NotUnderstood;
use super::super::grub_cfg::{Entry, default_entry, entries};
use super::super::grub_files::{GrubFiles, SNAPSHOT_MENU};
use super::super::grubenv::Grubenv;
use super::grub_cfg::with;
use bedplate_base::Reading;

fn tiny(script: &str) -> Result<Entry, NotUnderstood> {
    with(
        &format!("{script}\nmenuentry a {{ linux /a x$x$y }}\nmenuentry b {{ linux /b z }}\n"),
        "v=1 2\n",
        &[],
        &[],
    )
}

#[test]
fn machine_dependent_branch_makes_values_unknown() {
    let entry =
        tiny("if [ \"$grub_platform\" = efi ]; then set x=1; fi; set y=2").expect("followed");
    assert_eq!((entry.cmdline.as_str(), entry.others.as_slice()), ("x2", &["x12".to_owned()][..]));
    assert!(entry.unresolved.is_empty());
    let any = tiny("if [ \"$grub_platform\" = efi ]; then set x=$lang; fi").expect("followed");
    assert_eq!((any.cmdline.as_str(), any.others.len()), ("x$x", 0));
    assert_eq!(any.unresolved, ["x"]);
    let same =
        tiny("if [ \"$grub_platform\" = efi ]; then set x=1; else x=1; fi").expect("followed");
    assert_eq!(same.cmdline, "x1");
    assert!(
        tiny("if sometest; then set default=1; fi")
            .expect_err("unknown")
            .why
            .contains("which entry")
    );
    assert_eq!(tiny("if ! true; then set default=1; fi").expect("followed").image, "/a");
    assert_eq!(tiny("if ! false; then set default=1; fi").expect("followed").image, "/b");
    let calls = tiny("function f { set x=1; g; }\nfunction g { y=2 }\nf").expect("followed");
    assert_eq!(calls.cmdline, "x12");
    let looped = tiny("for i in 1 2; do x=$i; done").expect("followed");
    assert_eq!(looped.unresolved, ["x"]);
}

#[test]
fn function_runs_with_its_arguments() {
    let line = |script: &str| {
        let entry = tiny(script).expect("followed");
        (entry.cmdline, entry.others, entry.unresolved)
    };
    let known = |text: &str| (text.to_owned(), Vec::new(), Vec::new());
    assert_eq!(line("function f { set x=\"${1}\"; y=$2 }\nf 'a b' c"), known("xa bc"));
    assert_eq!(
        line("function f { if [ \"${1}\" = keep ]; then x=1; else x=; fi }\nf keep"),
        known("x1")
    );
    // The number of the second word depends on how many words the first expands to.
    let (_, _, unresolved) = line("function f { set x=$2 }\nf $lang a");
    assert_eq!(unresolved, ["x"]);
    let (_, _, unresolved) = line("function f { x=$1; return; x=2 }\nf a");
    assert_eq!(unresolved, ["x"], "a function that ends early is not followed");
    let (_, _, unresolved) = line("function f { set x=1; f }\nf");
    assert_eq!(unresolved, ["x"], "nor one that calls itself");
    let entry = with("function f { menuentry q { linux /q $x } }\nx=1\nf", "", &[], &[]);
    assert_eq!(entry.expect("followed").cmdline, "1");
    // Nine combinations exceed the limit.
    let nine = "if [ $lang = 1 ]; then v=1; else v=2; fi";
    let nine: String = ["a", "b", "c", "d"].iter().map(|v| nine.replace('v', v) + "\n").collect();
    let entry = with(&format!("{nine}menuentry m {{ linux /m $a $b $c $d }}"), "", &[], &[])
        .expect("followed");
    assert_eq!((entry.others.len(), entry.unresolved.as_slice()), (7, &["d".to_owned()][..]));
}

#[test]
fn variable_value_is_split_only_outside_quotes() {
    let cfg = |word: &str| format!("load_env\nmenuentry a {{ linux /a p{word}q }}\n");
    let line = |word: &str| with(&cfg(word), "v=1 2\n", &[], &[]).expect("followed").cmdline;
    assert_eq!(line("${v}"), "p1 2q");
    assert_eq!(line("\"${v}\""), "\"p1 2q\"");
    assert_eq!(line("${none}"), "pq");
}

#[test]
fn unsupported_code_is_reported_with_line() {
    let line = |script: &str| tiny(script).expect_err("not followed").line;
    assert_eq!(line("set x=1\nload_env -f /other"), 2);
    assert_eq!(line("source /other/file\n"), 1);
    assert_eq!(line("a | b"), 1);
    // Detected at the end of the script.
    assert_eq!(line("if true; then"), 4);
    assert_eq!(line("case x in y) ;; esac"), 1);
    assert_eq!(line("}"), 1);
    assert_eq!(line("set x='"), 1);
    assert_eq!(line("for q in a; do\n menuentry $q { true }\ndone"), 2);
    let doubtful =
        with("menuentry a { if cpuid; then linux /a x; else linux /b y; fi }", "", &[], &[]);
    assert!(doubtful.expect_err("either").why.contains("which kernel"));
    let none = with("menuentry a { chainloader +1 }", "", &[], &[]);
    assert!(none.expect_err("no kernel").why.contains("no Linux kernel"));
    assert!(with("set default=0\n", "", &[], &[]).expect_err("empty").why.contains("no entry"));
}

/// Commands of GRUB 2.14.
#[test]
fn entries_that_are_not_followed_make_later_positions_unknown() {
    let entry = "menuentry a --id x { linux /a q }";
    for command in ["uki", "blscfg --path /other", "blscfg -n", "blscfg $lang"] {
        let default = |default: &str, menu: String| {
            with(&format!("set default={default}\n{menu}\n"), "", &[], &[])
        };
        for found in ["0", "x"] {
            let entry = default(found, format!("{entry}\n{command}")).expect("followed");
            assert_eq!(entry.image, "/a", "{command}");
        }
        for (unknown, menu) in [
            ("0", format!("{command}\n{entry}")),
            ("1", format!("{entry}\n{command}")),
            ("y", format!("{entry}\n{command}")),
            // The first match counts.
            ("x", format!("{command}\n{entry}")),
        ] {
            let error = default(unknown, menu).expect_err(command);
            assert!(error.why.contains("depends on the machine"), "{error:?}");
        }
    }
}

/// As the headers of SUSE, Fedora 44 and GRUB 2.14.
const HEADER: &str = "load_env\nif [ \"${env_block}\" ]; then\n  set env_block=\"(${root})${env_block}\"\n  export env_block\n\
    load_env -f \"${env_block}\"\nfi\nset default=\"${saved_entry}\"\n\
    if [ \"${next_entry}\" ]; then set default=\"${next_entry}\"; fi\n\
    menuentry a --id x { linux /a }\nmenuentry b --id y { linux /b }\n";

#[test]
fn header_block_is_loaded_after_the_file() {
    let block = |variables: &str| {
        Grubenv::parse(&format!("# GRUB Environment Block\n{variables}###")).expect("a block")
    };
    let file = block("saved_entry=x\nenv_block=512+1\n");
    let image = |cfg: &str, grubenv: &Grubenv, header: Option<&Reading<Grubenv>>| {
        let files =
            GrubFiles { grubenv: Some(grubenv), header_block: header, ..GrubFiles::default() };
        default_entry(cfg, &files).map(|entry| entry.image)
    };
    let known_root = format!("set root='hd0,gpt2'\n{HEADER}");
    for cfg in [HEADER, &known_root] {
        for (header, expected) in [("next_entry=y\n", "/b"), ("health=1\n", "/a")] {
            let header = Reading::Known(block(header));
            assert_eq!(image(cfg, &file, Some(&header)).expect("followed"), expected);
        }
        assert_eq!(image(cfg, &file, Some(&Reading::Absent)).expect("followed"), "/a");
        let unknown = Reading::unknown("needs root");
        for header in [None, Some(&unknown)] {
            let error = image(cfg, &file, header).expect_err("unknown");
            assert!(error.why.contains("env_block"), "{error}");
        }
        let none = block("saved_entry=y\n");
        assert_eq!(image(cfg, &none, None).expect("followed"), "/b");
    }
    let other = HEADER.replace("load_env -f \"${env_block}\"", "load_env -f (hd1)/other");
    assert!(image(&other, &file, Some(&Reading::Absent)).is_err(), "another file");
}

#[test]
fn snapshot_menu_follows_the_entries_of_the_system() {
    let menu = |default: &str| {
        format!(
            "set default={default}\nmenuentry a --id x {{ linux /a $extra_cmdline q }}\n\
             if [ -f \"{SNAPSHOT_MENU}\" ]; then\n  source \"{SNAPSHOT_MENU}\"\nfi\n\
             menuentry b --id y {{ linux /b q }}\n"
        )
    };
    let snapshots = "if [ -z \"$extra_cmdline\" ]; then\n  submenu \"Snapshots\" {\n\
        if [ -f \"/.snapshots/2/grub-snapshot.cfg\" ]; then source \"/.snapshots/2/grub-snapshot.cfg\"; fi\n\
        if [ x$snapshot_found != xtrue ]; then submenu \"Not Found\" { true; }; fi\n  }\nfi\n";
    let files = |text: Option<&str>| Reading::from_option(text.map(str::to_owned));
    let image = |default: &str, text: &Reading<String>| {
        let around = GrubFiles { snapshot_menu: Some(text), ..GrubFiles::default() };
        let all = entries(&menu(default), &around).map(|all| all.len());
        (default_entry(&menu(default), &around).map(|entry| entry.image), all)
    };
    let (text, absent) = (files(Some(snapshots)), files(None));
    for default in ["0", "x", "y"] {
        for read in [&text, &absent] {
            let (image, all) = image(default, read);
            assert_eq!(image.expect("followed"), if default == "y" { "/b" } else { "/a" });
            assert_eq!(all, Ok(2));
        }
    }
    assert_eq!(image("2", &text).0.expect("followed"), "/b", "after the submenu");
    assert_eq!(image("1", &absent).0.expect("followed"), "/b");
    assert!(image("1>0", &text).0.is_err(), "an entry of a snapshot");
    assert!(image("0", &Reading::unknown("needs root")).0.is_err());
    // Outside the submenu the file of a snapshot could choose another entry.
    let chosen = files(Some("source /.snapshots/2/grub-snapshot.cfg\n"));
    assert!(image("0", &chosen).0.is_err());
    let changed = files(Some("set default=y\n"));
    assert_eq!(image("0", &changed).0.expect("followed"), "/b");
}

/// No file of this size may take more than a moment, or overflow the stack.
#[test]
fn expensive_script_is_rejected() {
    let long = format!("set a='{}'\n", "x".repeat(4000));
    let functions = |count: usize, call: fn(usize) -> String| -> String {
        (0..count).rev().map(|at| format!("function f{at} {{\n{}\n}}\n", call(at))).collect()
    };
    let refused = [
        format!("{long}linux /vmlinuz {}\n", "$a".repeat(100_000)),
        format!("{long}{}", "linux /vmlinuz $a$a$a$a\n".repeat(100_000)),
        format!("{}\nf0\n", functions(40, |at| format!("f{0}\nf{0}", at + 1))),
        format!("{}\nf0\n", functions(50_000, |at| format!("f{}", at + 1))),
        format!(
            "{}{}",
            (0..20_000).map(|at| format!("set a{at}=x\n")).collect::<String>(),
            "if [ $root = x ]; then true; fi\n".repeat(20_000)
        ),
    ];
    for script in refused {
        let error = tiny(&script).expect_err(&script[..100]);
        assert!(error.why.contains("too m"), "{error:?}");
    }
}

/// The same for files with very many parts, for the default entry and for all entries together.
#[test]
fn script_with_many_parts_is_rejected_quickly() {
    let numbered = |count: usize, text: &str| -> String {
        (0..count).map(|at| text.replace('#', &at.to_string()) + "\n").collect()
    };
    let menu = "menuentry m# { linux /m# }";
    let scripts = [
        format!("{}{}", numbered(300_000, "function f# { true; }"), numbered(100_000, menu)),
        format!(
            "{}{}",
            numbered(10_000, "function f# { true; }"),
            numbered(10_000, "menuentry m# { function g { true; }; linux /m }")
        ),
        numbered(200_000, "if [ $root = a ]; then true; fi"),
        numbered(20_000, "if [ $root = a ]; then set b#=1; fi"),
        (0..60)
            .rev()
            .map(|at| format!("function f{at} {{ f{0}; f{0}; }}\n", at + 1))
            .collect::<String>()
            + "f0\n",
        format!("#{}\n{}", "x".repeat(10 << 20), numbered(5_000, menu)),
    ];
    for script in scripts {
        let start = std::time::Instant::now();
        let (first, all) = (tiny(&script), entries(&script, &GrubFiles::default()));
        assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
        assert!(all.is_err() || script.starts_with('#'), "{}", &script[..100]);
        for error in [first.err(), all.err()].into_iter().flatten() {
            assert!(error.why.contains("too m"), "{error:?}");
        }
    }
    let usual = numbered(
        400,
        "menuentry m# {\n\tinsmod gzio\n\tset root='hd0,gpt2'\n\tsearch --set=root -u a\n\tlinux /m# quiet\n\tinitrd /i#\n}",
    );
    assert_eq!(entries(&usual, &GrubFiles::default()).expect("followed").len(), 400);
}
