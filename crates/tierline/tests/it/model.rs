// SPDX-License-Identifier: Apache-2.0
//! Tests of the modelled machines through the command line.

use std::fs;

use crate::machine::Machine;
use crate::{json, output, text};

#[test]
fn one_seed_prints_the_same_bytes_twice() {
    let line =
        "sim --json --seconds 2 --seed 7 --policy hold,tierline --workload gups:set=4GiB,hot=1GiB";
    let first = output(line);
    assert_eq!(first.status.code(), Some(0), "{}", text(&first.stderr));
    assert_eq!(first.stdout, output(line).stdout);
    let report = json(line);
    assert_eq!(report["schema_version"], 2);
    assert_eq!(report["runs"][1]["policy"], "tierline");
    let throughput = &report["runs"][0]["steady"]["programs"][0]["throughput_per_second"];
    assert!(throughput.as_f64().is_some_and(|ops| ops > 1e8), "{throughput}");
    assert_eq!(report["runs"][0]["series"].as_array().map(Vec::len), Some(2));
}

#[test]
fn tenants_have_a_table_of_usage_and_limits() {
    let machine = Machine::new();
    let file = machine.root().join("tenants.toml");
    let scenario = r#"
        seconds = 2
        policy = "first-touch"
        [[tenant]]
        name = "shop"
        limit = { fast = "1GiB" }
        [[workload]]
        kind = "gups"
        tenant = "shop"
        set = "1GiB"
        hot = "512MiB"
        [[workload]]
        kind = "scan"
        set = "1GiB"
    "#;
    fs::write(&file, scenario).unwrap();
    let line = format!("sim {}", file.display());
    let table = text(&output(&line).stdout);
    for part in ["default GiB / limit", "shop", "gups", "1.00 / 1.00", "0.00 / -", "of 2, worst"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let steady = &json(&format!("{line} --json"))["runs"][0]["steady"];
    assert_eq!(steady["programs"][0]["tenant"], "shop");
    assert!(steady["programs"][1].get("tenant").is_none(), "{steady}");
    let tenant = &steady["tenants"][0];
    assert_eq!((&tenant["name"], &tenant["used_bytes"][0]), (&"shop".into(), &(1 << 30).into()));
    assert_eq!(tenant["limit_bytes"][0], 1 << 30);
    assert!(tenant["limit_bytes"][1].is_null());
    let weighted = steady["weighted_speedup"].as_f64().unwrap();
    assert!(weighted > 0.0 && weighted <= 2.0 + 1e-9, "both fit in fast memory: {weighted}");
    let wrong = scenario.replace("tenant = \"shop\"", "tenant = \"shpo\"");
    fs::write(&file, wrong).unwrap();
    let refused = output(&line);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("did you mean shop?"), "{}", text(&refused.stderr));
}

#[test]
fn a_policys_numbers_are_set_by_name() {
    let line = "sim --json --seconds 2 --policy hemem --workload gups";
    let fingerprint = |line: &str| json(line)["runs"][0]["fingerprint"].clone();
    assert_ne!(fingerprint(line), fingerprint(&format!("{line} --knobs quantum=0.5,hot_reads=1")));
    let output = output("sim --policy hemem --knobs hot_read=1");
    assert!(text(&output.stderr).contains("did you mean hot_reads?"), "{}", text(&output.stderr));
}

#[test]
fn an_unknown_name_gives_the_nearest_known_name() {
    for (line, hint) in [
        ("sim --machine colloid-ick", "colloid-icx"),
        ("sim --workload gusp", "gups"),
        ("sim --policy teirline", "tierline"),
        ("sim --tracker pebz", "pebs"),
        ("machines show colloid-ic", "colloid-icx"),
    ] {
        let output = output(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        let message = text(&output.stderr);
        assert!(message.contains(&format!("did you mean {hint}?")), "{message}");
    }
    let output = output("sim --workload gups:hott=3");
    assert!(text(&output.stderr).contains("hott"), "{}", text(&output.stderr));
}

#[test]
fn every_machine_is_listed_and_its_figures_have_sources() {
    let list = json("machines --json");
    let machines = list["machines"].as_array().expect("machines");
    assert!(machines.len() >= 9);
    for machine in machines {
        let name = machine["name"].as_str().expect("a name");
        let shown = json(&format!("machines show {name} --json"));
        let figures = shown["figures"].as_array().expect("figures");
        assert!(figures.iter().all(|f| f["source"].as_str().is_some_and(|s| !s.is_empty())));
    }
}

#[test]
fn a_machine_is_fitted_to_a_table_and_runs() {
    let machine = Machine::new();
    let (fast, slow, file) =
        (machine.file("mlc.txt"), machine.file("cxl.csv"), machine.file("my.toml"));
    let mlc = " 00000\t259.0\t226000\n 00002\t132.0\t196000\n 00008\t103.0\t134000\n \
        00050\t88.0\t59000\n 00100\t83.0\t25000\n 01000\t79.0\t2900\nALL Reads : 226000\n";
    fs::write(&fast, mlc).expect("a file");
    fs::write(&slow, "gb_per_s,ns\n8.5,109\n21,114\n24.6,119\n26.7,136\n26.8,612\n")
        .expect("a file");
    let line = format!(
        "machines fit --json {} {} --capacity 8G,64G -o {}",
        fast.display(),
        slow.display(),
        file.display()
    );
    let report = json(&line);
    assert!(report["tiers"][0]["mean_error"].as_f64().is_some_and(|e| e < 0.02), "{report}");
    assert!(report["tiers"][1]["mean_error"].as_f64().is_some_and(|e| e < 0.06), "{report}");
    let line = format!(
        "sim --json --machine {} --seconds 1 --workload gups:set=16GiB,hot=4GiB",
        file.display()
    );
    assert_eq!(json(&line)["runs"][0]["steady"]["tiers"][1]["name"], "tier1");
}

#[test]
fn the_scoreboard_prints_its_rows_as_an_array() {
    let line = "reproduce C-BW N-HW M-F2 --json";
    let report = json(line);
    assert_eq!(report["schema_version"], 2);
    let rows = report["rows"].as_array().expect("rows");
    let ids: Vec<_> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["C-BW", "N-HW", "M-F2"]);
    for row in rows {
        let keys: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
        for key in [
            "id",
            "title",
            "source",
            "published",
            "ours",
            "unit",
            "error",
            "kinds",
            "holds",
            "note",
        ] {
            assert!(keys.contains(&key), "{key}: {row}");
        }
    }
    assert_eq!(rows[0]["kinds"], serde_json::json!(["fitted", "fitted", "fitted"]));
    assert_eq!(rows[0]["holds"], true);
    assert_eq!(rows[0]["published"], serde_json::json!([51.0, 65.0, 70.0]));
    assert_eq!(rows[1]["kinds"], serde_json::json!(["not yet", "not yet"]));
    assert_eq!(rows[1]["ours"], serde_json::json!([]));
    assert_eq!(output(line).stdout, output(&format!("{line} --threads 1")).stdout);
    let kept = tempfile::tempdir().expect("a folder");
    let keep = format!("{line} --keep {}", kept.path().display());
    for _ in 0..2 {
        assert_eq!(output(&keep).stdout, output(line).stdout, "run, and read back");
        assert!(kept.path().read_dir().expect("a folder").count() > 0);
    }
    for (wrong, hint) in [("C-F55", "did you mean C-F"), ("C-F7", "did you mean C-F7*?")] {
        let refused = output(&format!("reproduce {wrong}"));
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(hint), "{}", text(&refused.stderr));
    }
}

#[test]
fn the_scoreboard_is_listed_without_being_computed() {
    let list = json("reproduce --list C-F7* --json");
    let rows = list["rows"].as_array().expect("rows");
    let of = |id: &str| rows.iter().find(|row| row["id"] == id).expect("the row");
    assert!(rows.len() == 4 && rows.iter().all(|row| row["title"].is_string()));
    assert_eq!(
        (&of("C-F7-cells-TPP")["figures"], &of("C-F7-cells-TPP-4K")["takes_hours"]),
        (&16.into(), &true.into())
    );
    let printed = text(&output("reproduce --list T-T1-Web1-21").stdout);
    assert!(printed.contains("fitted predicted predicted predicted"), "{printed}");
}

#[test]
fn rows_beyond_the_time_limit_are_listed_as_not_run() {
    let line = "reproduce C-BW C-PAR --minutes 0";
    let report = json(&format!("{line} --json"));
    assert_eq!(report["rows"][0]["holds"], serde_json::Value::Null);
    assert_eq!(report["rows"][1]["holds"], true);
    let printed = text(&output(line).stdout);
    assert!(printed.contains("not run") && printed.contains("0 of 0 computed rows"), "{printed}");
}

#[test]
fn results_are_written_as_documents_with_their_origin() {
    let machine = Machine::new();
    let (rows, matrix) = (machine.root().join("rows.md"), machine.root().join("matrix.md"));
    let line = "reproduce C-BW C-PAR C-F7-cells-TPP-4K M-F2 --threads 1";
    let written = output(&format!("{line} --commit abc123 --markdown {}", rows.display()));
    assert_eq!(written.status.code(), Some(0), "{}", text(&written.stderr));
    let document = fs::read_to_string(&rows).unwrap();
    for part in [
        &format!("tierline {line} --commit abc123") as &str,
        "commit abc123, on ",
        "## Colloid (SOSP 2024)",
        "1 of 1 computed rows hold, of 3 listed.",
        "| fitted | yes |",
        "| given | given |",
        "Not run for this document: C-F7-cells-TPP-4K.",
        "## Mercury",
    ] {
        assert!(document.contains(part), "{part}: {document}");
    }
    assert!(!document.contains("Not run for this document: M-"), "nothing computes them");

    let line = "compare --matrix --machine arms-numa --ratio 1:2 --workload gups --seconds 1 \
                --policy tierline,first-touch";
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let written = output(&format!("{line} --markdown {}", matrix.display()));
    assert_eq!(written.status.code(), Some(0), "{}", text(&written.stderr));
    let document = fs::read_to_string(&matrix).unwrap();
    for part in [
        "4 of the matrix's 288 cells",
        "2 policies",
        "not run: hemem, hemem+colloid,",
        "| arms-numa | 4 | 32 |",
        "(matrix.svg)",
    ] {
        assert!(document.contains(part), "{part}: {document}");
    }
    assert!(fs::read_to_string(matrix.with_extension("svg")).unwrap().starts_with("<svg"));
}

#[test]
fn a_comparison_prints_one_row_per_run() {
    let line = "compare --policy first-touch,hold --workload gups:set=2GiB,hot=1GiB --seconds 1 \
                --ratio 1:2";
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let rows = json(&format!("{line} --json"));
    let row = rows[0].as_object().expect("an object");
    for key in [
        "machine",
        "workload",
        "ratio",
        "policy",
        "seed",
        "throughput_per_second",
        "unit",
        "fast_share",
        "mean_latency_ns",
        "migrated_bytes",
        "ping_pong_pages",
        "recovery_seconds",
        "relative_to_best",
        "progress",
        "share_of_gain",
        "weighted_speedup",
        "worst_slowdown",
    ] {
        assert!(row.contains_key(key), "{key}");
    }
    let csv = text(&output(&format!("{line} --csv")).stdout);
    assert_eq!(csv.lines().count(), 3, "{csv}");
    let machine = Machine::new();
    let file = |name: &str| machine.root().join(name);
    for name in ["rows.csv", "rows.json", "rows.parquet"] {
        let written = output(&format!("{line} -o {}", file(name).display()));
        assert_eq!((written.status.code(), written.stdout.len()), (Some(0), 0), "{name}");
    }
    assert_eq!(fs::read_to_string(file("rows.csv")).unwrap(), csv);
    let parquet = fs::read(file("rows.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    let written = fs::read_to_string(file("rows.json")).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), rows);
    assert_eq!(output(&format!("{line} -o rows.txt")).status.code(), Some(2));
    let wrong = output("compare --policy hold --ratio 12");
    assert_eq!(wrong.status.code(), Some(2));
}

/// On a machine file, with a ratio, another seed, several programs, and a scenario file.
#[test]
fn the_command_of_a_row_repeats_it_to_the_bit() {
    let machine = Machine::new();
    let (mine, file) = (machine.root().join("mine.toml"), machine.root().join("run.toml"));
    fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/arms-numa.toml"), &mine).unwrap();
    let scenario = "seconds = 1\nquantum = \"5ms\"\n[[workload]]\nkind = \"gups\"\nset = \"2GiB\"\nhot = \"1GiB\"\n";
    fs::write(&file, scenario).unwrap();
    let (mine, file) = (mine.display(), file.display());
    for line in [
        format!(
            "--machine {mine},colloid-icx --workload gups:set=2GiB,hot=1GiB,jump=500ms+scan:set=1GiB \
             --ratio 1:2 --seconds 1 --seed 5 --max-rate 300MB/s"
        ),
        format!("--workload {file} --ratio 1:3"),
        format!("--workload {file} --machine {mine}"),
    ] {
        let rows = json(&format!("compare --policy hemem,first-touch {line} --json"));
        for row in rows.as_array().expect("rows") {
            let command = row["command"].as_str().expect("a command");
            let run = json(&format!("{} --json", command.strip_prefix("tierline ").unwrap()));
            let run = &run["runs"][0];
            let program = &run["steady"]["programs"][0];
            assert_eq!(row["fingerprint"], run["fingerprint"], "{command}");
            for (of_row, of_run) in [
                ("throughput_per_second", &program["throughput_per_second"]),
                ("fast_share", &program["shares"][0]),
                ("mean_latency_ns", &program["latency_ns"]),
                ("weighted_speedup", &run["steady"]["weighted_speedup"]),
            ] {
                assert_eq!(&row[of_row], of_run, "{of_row} of {command}");
            }
        }
        let printed = text(&output(&format!("compare --policy hold {line} --commands")).stdout);
        assert!(printed.contains("tierline sim "), "{printed}");
    }
    let shown = json(&format!("machines show {mine} --json"));
    assert!(shown["figures"].as_array().is_some_and(|figures| !figures.is_empty()));
    for verb in ["profile --interval 500ms --seconds 1", "compare --policy hold --seconds 1"] {
        let done = output(&format!("{verb} --workload gups:set=1GiB,hot=512MiB --machine {mine}"));
        assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    }
}

#[test]
fn a_run_is_drawn_into_self_contained_files() {
    let machine = Machine::new();
    let (svg, html) = (machine.root().join("run.svg"), machine.root().join("run.html"));
    let line = "sim --seconds 4 --policy hold --workload gups:set=2GiB,hot=1GiB";
    let line = format!("{line} --plot {} --html {}", svg.display(), html.display());
    assert_eq!(output(&line).status.code(), Some(0));
    let (svg, html) = (fs::read_to_string(svg).unwrap(), fs::read_to_string(html).unwrap());
    assert!(svg.starts_with("<svg") && svg.contains("Loaded latency"), "{svg}");
    assert!(html.contains("<svg") && !html.contains("src="), "{html}");
}

/// The same seed draws the same cells; those that are behind have commands.
#[test]
fn cells_drawn_at_random_are_compared() {
    let line =
        "compare --matrix --random 2 --seed 5 --seconds 1 --policy tierline,first-touch,bound";
    let rows = json(&format!("{line} --json"));
    let rows = rows.as_array().expect("rows");
    assert_eq!(rows.len(), 6);
    assert_eq!(rows[0]["workload"], rows[2]["workload"]);
    assert_ne!(rows[0]["workload"], rows[3]["workload"]);
    let table = text(&output(line).stdout);
    assert!(table.contains("of 2 cells below 0.97 of the best other"), "{table}");
    assert_eq!(output("compare --random 2 --policy hemem").status.code(), Some(2));
}

/// All of a program that fits in fast memory is fast, under every policy.
#[test]
fn a_plan_answers_in_one_sentence() {
    let line =
        "plan --workload gups:set=1GiB,hot=256MiB --seconds 1 --seeds 2 --policy first-touch,bound";
    let answer = text(&output(&format!("{line} --price 8,3")).stdout);
    let first = answer.lines().next().unwrap_or_default();
    for part in
        ["as fast memory are enough", "at most 5.0 % under first-touch", "bound needs", "cost"]
    {
        assert!(first.contains(part), "{part}: {answer}");
    }
    let report = json(&format!("{line} --json"));
    assert_eq!(
        (&report["memory_bytes"], &report["slowdown_share"]),
        (&(1 << 30).into(), &0.05.into())
    );
    let curves = report["curves"].as_array().expect("curves");
    assert_eq!((curves.len(), curves[0]["points"].as_array().map(Vec::len)), (2, Some(9)));
    let enough = |curve: usize| curves[curve]["enough_bytes"].as_u64().expect("bytes");
    assert!(enough(1) <= enough(0), "the bound needs no more: {report}");
    let refused = output("plan --workload gups --slowdown much");
    assert!(
        text(&refused.stderr).contains("expected percent, as in 5%"),
        "{}",
        text(&refused.stderr)
    );
}
