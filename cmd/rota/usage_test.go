package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-dev/rota/cmd/rota/internal/agent"
	"github.com/rota-dev/rota/cmd/rota/internal/cli"
	"github.com/rota-dev/rota/cmd/rota/internal/connect"
	"github.com/rota-dev/rota/cmd/rota/internal/demo"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Every mistake gets one clear line and its exit code.
func TestEveryMistakeGetsOneLineAndItsCode(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"value.yaml": "lease: 5s\nheartbeat: fast\n", "typo.yaml": "# mine\nleese: 5s\n", "broken.yaml": "lease: [5s\n",
		"list.yaml": "- lease\n", "twice.yaml": "lease: 5s\nlease: 6s\n", "map.yaml": "name:\n  first: c1\n", "empty": "", "old.yaml": "drain: 3s\n",
		"url.yaml": "group: g\nstore: mysql://user:hunter2@host\nsource: none:?partitions=1\nown: exec:true\n",
		"half":     `{"v":2,"event":"grant","boot_ns":1}` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const member = "run --group g --store mem: --source none:?partitions=2 --own exec:true "
	const stream = "run --group g --store mem: --source nats://127.0.0.1:1?stream=S&subject=a.*&partitions=3 "
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		// Nothing to talk to.
		{"run", 69, "no rota up or rota serve has run in rota-data: start one, name its folder with --dir, or say --store"},
		{"status", 69, "no rota up or rota serve has run in rota-data"},
		{"explain demo.0", 69, "no rota up or rota serve has run in rota-data"},
		{"pause demo.0", 69, "no rota up or rota serve has run in rota-data"},
		{"group check", 69, "no rota up or rota serve has run in rota-data"},
		{"group repair --yes", 69, "no rota up or rota serve has run in rota-data"},
		{"group reset --yes", 69, "no rota up or rota serve has run in rota-data"},
		{"bench store", 69, "no rota up or rota serve has run in rota-data"},
		{"declare-dead c1 --yes", 69, "no rota up or rota serve has run in rota-data"},
		{"group check --group g --store mem:", 1, `there is no group called "g" in mem:: nothing stands there`},
		{"partitions list --dir elsewhere", 69, "no rota up or rota serve has run in elsewhere"},
		{"produce x", 69, "no rota up or rota serve has run in rota-data: start one, name its folder with --dir, or say --source"},
		{"groups", 69, "no rota up or rota serve has run in rota-data"},
		{"orders", 69, "no rota up or rota serve has run in rota-data"},
		{"history", 69, "no rota up or rota serve has run in rota-data"},
		{"status --group g --store nats://user:hunter2@127.0.0.1:1", 69, "the store nats://***@127.0.0.1:1 cannot be reached: "},
		{"run --group g --store nats://127.0.0.1:1 --source none:?partitions=2 --own exec:true", 69, "the store nats://127.0.0.1:1 cannot be reached: "},
		{stream + "--handle none --quiet", 69, "the source nats://127.0.0.1:1?stream=S&subject=a.*&partitions=3 cannot be used: stream S: "},
		{"produce --source nats://127.0.0.1:1?stream=S&subject=a.*&partitions=3 x", 69, "cannot be reached: nats: no servers available"},

		// What is missing, or does not go together.
		{"run --store mem:", 64, "--group is missing: name the group to join"},
		{"run --group g --store mem:", 64, "--source is missing: say what there is to do, such as nats://"},
		{"status --store mem:", 64, "--group is missing: say which group"},
		{"run --group g --store mem: --source none:?partitions=2", 64, "--source none:?partitions=2 delivers nothing: say with --own exec:CMD what to run per partition"},
		{member + "--handle log", 64, "--own and --handle: choose one"},
		{stream + "--own exec:true", 64, "--own runs a command per partition, and --source nats://"},
		{member + "--trace", 64, "--trace needs --events FILE"},
		{"explain", 64, "want rota explain PARTITION|MEMBER; see rota explain --help"},
		{"pin demo.0", 64, "want rota pin PARTITION MEMBER; see rota pin --help"},
		{"declare-dead", 64, "want rota declare-dead MEMBER; see rota declare-dead --help"},
		{"group nonsense", 64, `unknown command "nonsense"; see rota group --help`},
		{"check", 64, "want rota check FILE...; see rota check --help"},
		{"partitions set demo.0", 64, "want rota partitions set PARTITION KEY=VALUE...; see rota partitions set --help"},
		{"up now", 64, `unknown command "now" for "rota up"`},
		{"partitions nonsense", 64, `unknown command "nonsense"; see rota partitions --help`},
		{"produce --source none:?partitions=1 x", 64, "--source none:?partitions=1: nothing can be published there"},
		{"produce --source nats://h?stream=S&subject=a.*&partitions=3", 64, "nothing to publish: give values, - for standard input, --count or --rate"},
		{"produce --source nats://h?stream=S&subject=a.*&partitions=3 --partition a.7 x", 64, `there is no partition called "a.7"; there are a.0, a.1, a.2`},
		{"serve --user me", 64, "--user and --password-file: give both or none"},
		{"serve --cert cert.pem", 64, "--cert and --key: give both or none"},

		// URLs.
		{"run --group g --store mysql://me:hunter2@host --source none:?partitions=2 --own exec:true", 64, `--store "mysql://***@host": unknown kind of URL; known are embed:./rota-data, nats://HOST:4222, tls://HOST:4222, wss://HOST, etcd://HOST:2379, zk://HOST:2181, redis://HOST:6379, rediss://HOST:6379, redis+sentinel://HOST:26379/NAME, redis+cluster://HOST:6379, mem:`},
		{"run --group g --store host:4222 --source none:?partitions=2 --own exec:true", 64, `--store "host:4222": unknown kind of URL; known are `},
		{"run --group g --store embed: --source none:?partitions=2 --own exec:true", 64, `--store "embed:": the URL embed: names no folder: write embed:DIR`},
		{"run --group g --store mem:x --source none:?partitions=2 --own exec:true", 64, `--store "mem:x": write mem: and nothing else`},
		{"run --group g --store nats://h:port --source none:?partitions=2 --own exec:true", 64, `--store "nats://h:port": server 1 of the URL is not a HOST:PORT`},
		{"run --group g --store nats://h?nonsense=1 --source none:?partitions=2 --own exec:true", 64, `the URL has an unknown parameter nonsense; known are after, api, bucket, `},
		{"run --group g --store mem: --source pulsar://h", 64, `--source "pulsar://h": unknown kind of URL; known are nats://`},
		{"run --group g --store mem: --source none:?partitions=0 --own exec:true", 64, `--source "none:?partitions=0": partitions is "0": want a number from 1 to 100000`},
		{"run --group g --store mem: --source none:?partition=2 --own exec:true", 64, `it has no "partition"; known are partitions and names`},
		{"run --group g --store mem: --source none:2 --own exec:true", 64, `--source "none:2": want none:?partitions=N or none:?names=a,b,c`},
		{"run --group g --store mem: --source none:?names=a,a --own exec:true", 64, `names: "a" is empty or there twice`},
		{"run --group g --store mem: --source nats://h?stream=S", 64, "it needs a stream and a subject: "},
		{"run --group g --store mem: --source nats://h?stream=S&subject=a.b", 64, "the subject needs one star, for the partition: orders.*"},
		{"run --group g --store mem: --source nats://h?stream=S&subject=a.*&partitions=x&token=hunter2", 64, `token=***": the URL's parameter partitions: want a number from 1 to 100000, not "x"`},

		// Handlers.
		{stream + "--handle wat", 64, `--handle "wat": want log, none, sleep:TIME, exec:CMD, worker:CMD or http:URL`},
		{stream + "--handle sleep:long", 64, `--handle "sleep:long": want a time such as sleep:20ms`},
		{stream + "--handle exec:", 64, `--handle "exec:": there is no command behind it`},
		{stream + "--handle worker:", 64, `--handle "worker:": there is no command behind it`},
		{stream + "--handle exec:true --worker-per member", 64, `--worker-per is for --handle worker:CMD, and that is "exec:true"`},
		{stream + "--handle worker:true --worker-per host", 64, `--worker-per "host": want partition or member`},
		{stream + "--handle worker:true --lease 200ms --heartbeat 50ms", 64, "--lease 200ms is too short for commands: "},
		{member + "--worker-per member", 64, "--worker-per is for --handle worker:CMD"},
		{"run --group g --store mem: --source none:?partitions=2 --own worker:true", 64, `--own "worker:true": want exec:CMD`},
		{"lease", 64, "no lease to look at: ROTA_LEASE_FILE is set for commands that rota run starts"},
		{"lease --lease-file none", 1, "the lease is over: none is gone"},
		{stream + "--handle exec:no-such-command", 64, `--handle "exec:no-such-command": there is no such command: `},
		{stream + "--handle http:", 64, `--handle "http:": want a whole URL, such as http://127.0.0.1:8080/handle`},
		{stream + "--handle ftp://me:hunter2@h/", 64, `--handle "ftp://***@h/": want log, `},
		{"run --group g --store mem: --source none:?partitions=2 --own log", 64, `--own "log": want exec:CMD`},

		// Values.
		{member + "--lease 0s", 64, `--lease "0s": it cannot be zero; see rota run --help`},
		{member + "--lease 5", 64, `--lease "5": want a duration such as 5s or 150ms; see rota run --help`},
		{member + "--stop-time -1s", 64, `--stop-time "-1s": it cannot be negative; see rota run --help`},
		{member + "--quiet-time 1us", 64, "--quiet-time is 1µs: the least is 1ms\n"},
		{member + "--health 8086", 64, `--health "8086": want HOST:PORT, such as 127.0.0.1:8086, or :8086 for every interface`},
		{member + "--settle 1s", 64, "--settle is called --quiet-time now; see rota run --help\n"},
		{member + "--drain 1s", 64, "--drain is called --stop-time now; see rota run --help\n"},
		{member + "--lease 200ms --heartbeat 50ms", 64, "--lease 200ms is too short for commands: 10ms of it are for ending commands, and on a busy machine that takes up to 25ms; use a lease of 500ms or more\n"},
		{member + "--orphan 100h", 64, "--orphan is 100h0m0s: the most is 24h0m0s\n"},
		{member + "--lease 3s", 64, "a heartbeat of 2s is too slow for a lease of 3s: "},
		{member + "--strategy heap", 64, `--strategy "heap": want spread, range or pack; see rota run --help`},
		{member + "--capacity 5", 64, "--capacity is for --strategy pack, and the strategy is spread: drop one of them"},
		{member + "--strategy pack --trigger 0.5", 64, "--trigger is 0.5 and --target is 0.8: a member that is filled to its target would be overloaded; the trigger must be the target or more"},
		{member + "--strategy pack --interval 1s", 64, "--interval is 1s and --heartbeat is 2s: members report once in a heartbeat, so look no more often"},
		{member + "--strategy pack --catch-up 10s", 64, "--catch-up is 10s and --interval is 30s: no plan could keep that; a backlog cannot be worked off before the plan is looked at again"},
		{member + "--strategy pack --weight q0=much", 64, "--weight q0=much: want units per second, from 0 to 1e12"},
		{member + "--strategy pack --price 0", 64, `--price "0": want a number from 0.01 to 256; see rota run --help`},
		{member + "--rebalance slowly", 64, `--rebalance "slowly": want incremental or eager; see rota run --help`},
		{member + "--strategy pack --capacity 5 --scale 1..2 --scaler aws:", 64, `--scaler "aws:": the URL names no Auto Scaling group: write aws:GROUP`},
		{member + "--strategy pack --capacity 5 --scale 1..2 --scaler aws:f?regoin=x", 64, `the URL has an unknown parameter regoin; known are endpoint, region`},
		{member + "--label-from gce", 64, `--label-from "gce": want ec2; see rota run --help`},
		{member + "--cloudwatch AWS/rota", 64, `--cloudwatch: namespace "AWS/rota": use at most 255 of `},
		{member + "--label x", 64, `--label "x": x must be formatted as key=value; see rota run --help`},
		{"run --group a/b --store mem: --source none:?partitions=2 --own exec:true", 64, `--group "a/b": use at most 48 characters`},
		{"group repair --longest-lease 0s", 64, `--longest-lease "0s": it cannot be zero; see rota group repair --help`},
		{"group repair --longest-lease 25h", 64, "--longest-lease 25h0m0s: no lease is longer than 24h0m0s"},
		{"group check -o yaml", 64, `--output "yaml": want table or json; see rota group check --help`},
		{"status -o yaml", 64, `--output "yaml": want table or json; see rota status --help`},
		{"up --members 65", 64, `--members "65": want a whole number from 1 to 64; see rota up --help`},
		{"up --partitions 0", 64, `--partitions "0": want a whole number from 1 to 1024; see rota up --help`},
		{"up --listen 0.0.0.0:4222", 64, "--listen 0.0.0.0:4222: other hosts could connect, and rota up has no user and password to ask them for: listen on 127.0.0.1, or use rota serve with --token-file"},
		{"up --listen :4222", 64, "--listen :4222: other hosts could connect"},
		{"up --for -1s", 64, `--for "-1s": want a time such as 30s or 2m; 0 means until Ctrl-C; see rota up --help`},
		{"up --for 30", 64, `--for "30": want a time such as 30s or 2m; 0 means until Ctrl-C; see rota up --help`},
		{"up --rate -1", 64, `--rate "-1": want a whole number from 0 to 100000; see rota up --help`},
		{"up --open", 64, "--open is about clients that come by TCP: add --listen HOST:PORT"},
		{"serve --open", 64, "--open is about clients that come by TCP: add --listen HOST:PORT"},
		{"serve --ca ca.pem", 64, "--user, --token-file, --cert and --ca are for clients that come by TCP: add --listen HOST:PORT"},
		{"serve --open --ca ca.pem --listen 127.0.0.1:4222", 64, "--open and a way to sign in: give one of them"},
		{"up --listen nonsense", 64, `--listen "nonsense": want HOST:PORT, such as 127.0.0.1:4222`},
		{"serve --listen 127.0.0.1:99999", 64, `--listen "127.0.0.1:99999": want HOST:PORT, such as 127.0.0.1:4222`},
		{"serve --listen 0.0.0.0:4222", 64, "--listen 0.0.0.0:4222: other hosts could connect: give --user and --password-file, or --token-file, or listen on 127.0.0.1\n"},
		{"serve --listen :4222", 64, "--listen :4222: other hosts could connect: "},
		{"serve --listen [::]:4222", 64, "--listen [::]:4222: other hosts could connect: "},
		{"serve --listen x@0.0.0.0:4222", 64, `--listen "x@0.0.0.0:4222": want HOST:PORT, such as 127.0.0.1:4222`},
		{"serve --dir a?open=true", 64, `--dir "a?open=true": a folder with ? in its name cannot be used`},
		{"status --dir a?b", 64, `--dir "a?b": a folder with ? in its name cannot be used`},

		// Files.
		{"run --config old.yaml", 64, "old.yaml:1: drain: it is called stop-time now"},
		{"run --config value.yaml", 64, `value.yaml:2: heartbeat "fast": want a duration such as 5s or 150ms`},
		{"run --config typo.yaml", 64, "typo.yaml:2: leese: there is no such setting; is lease meant?"},
		{"run --config broken.yaml", 64, "broken.yaml: line 1: did not find expected"},
		{"run --config list.yaml", 64, "list.yaml:1: want lines such as lease: 5s"},
		{"run --config twice.yaml", 64, "twice.yaml:2: lease: it is set in line 1 already"},
		{"run --config map.yaml", 64, "map.yaml:2: name: want a plain value"},
		{"run --config none.yaml", 64, "--config: open none.yaml: no such file or directory"},
		{"run --config url.yaml", 64, `--store "mysql://***@host": unknown kind of URL`},
		{member + "--events no/where", 64, "--events: open no/where: no such file or directory"},
		{"serve --token-file none", 64, "--token-file: open none: no such file or directory"},
		{"serve --token-file empty", 64, "--token-file: empty is empty"},
		{"check none", 64, "open none: no such file or directory"},
		{"check half", 64, "half:1: grant without its partition, token or session"},
	} {
		code, stdout, stderr := rotaRuns(t.Context(), strings.Fields(c.args)...)
		if before, after, warned := strings.Cut(stderr, "\n"); warned && strings.HasPrefix(before, "rota: warning: every user of this machine") {
			stderr = after
		}
		if code != c.code || stdout != "" || !strings.Contains(stderr, c.says) || !strings.HasPrefix(stderr, "rota: ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("rota %s: exit %d, stdout %q, stderr %q\nwant exit %d and %q", c.args, code, stdout, stderr, c.code, c.says)
		}
		if strings.Contains(stderr, "hunter2") {
			t.Errorf("rota %s tells a secret: %q", c.args, stderr)
		}
	}
	t.Setenv("ROTA_HEARTBEAT", "often")
	if code, _, stderr := rotaRuns(t.Context(), strings.Fields(member)...); code != 64 || stderr != "rota: ROTA_HEARTBEAT \"often\": want a duration such as 5s or 150ms\n" {
		t.Errorf("a wrong variable: exit %d, %q", code, stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "rota-data*")); len(left) > 0 {
		t.Errorf("a mistake made %v", left)
	}
}

// A flag wins over the environment, and that over the file.
func TestSettingsComeFromFlagsThenEnvironmentThenFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rota.yaml")
	if err := os.WriteFile(file, []byte("lease: 11s\nheartbeat: 1s\nquiet_time: 0s\nlabel: [pod=p1, zone=z1]\nmembers: 7\nstart_gate: gate\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ROTA_PARTITION", "orders.3") // as in a command that a member runs
	if p := demo.ProduceCmd(); cli.ApplySettings(p) != nil || p.Flag("partition").Value.String() != "" {
		t.Error("rota produce takes the partition of the command it runs in")
	}
	t.Setenv("ROTA_HEARTBEAT", "2s")
	t.Setenv("ROTA_LEASE", "12s")
	t.Setenv("ROTA_CONFIG", file)
	cmd := agent.RunCmd()
	root := rootCmd()
	root.AddCommand(cmd)
	if err := cmd.ParseFlags([]string{"--lease", "13s"}); err != nil {
		t.Fatal(err)
	}
	if err := cli.ApplySettings(cmd); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{"lease": "13s", "heartbeat": "2s", "quiet-time": "0s", "label": "[pod=p1,zone=z1]", "start-gate": "gate", "stop-time": "30s", "return": "0s"} {
		if got := cmd.Flag(flag).Value.String(); got != want {
			t.Errorf("--%s is %s, want %s", flag, got, want)
		}
	}
}

func TestCompletionKnowsCommandsFlagsAndFiles(t *testing.T) {
	for _, c := range []struct {
		typed []string
		want  string
	}{
		{[]string{"par"}, "partitions"},
		{[]string{"partitions", ""}, "remove"},
		{[]string{"group", ""}, "repair"},
		{[]string{"group", "check", "-o", "j"}, "json"},
		{[]string{"status", "-o", "j"}, "json"},
		{[]string{"pause", "-o", "j"}, "json"},
		{[]string{"check", "-o", "j"}, "json"},
		{[]string{"version", "-o", "j"}, "json"},
		{[]string{"groups", "-o", "j"}, "json"},
		{[]string{"history", "-o", "j"}, "json"},
		{[]string{"run", "--strategy", ""}, "pack"},
		{[]string{"run", "--rebalance", ""}, "eager"},
		{[]string{"run", "--on-store-loss", ""}, "continue"},
		{[]string{"group", "repair", "--lo"}, "--longest-lease"},
		{[]string{"declare-dead", ""}, ":4"}, // no group here: no names, and no files either
		{[]string{"run", "--he"}, "--heartbeat"},
		{[]string{"sim", "--faults", "cra"}, "crash"},
		{[]string{"bench", "fail"}, "failover"},
		{[]string{"bench", "failover", "--output", "j"}, "json"},
		{[]string{"bench", "st"}, "store"},
		{[]string{"bench", "store", "--output", "j"}, "json"},
		{[]string{"bench", "failover", "--report", ""}, ":16"}, // folders
		{[]string{"explain", ""}, ":4"},
	} {
		code, stdout, _ := rotaRuns(t.Context(), append([]string{"__complete"}, c.typed...)...)
		if code != 0 || !strings.Contains(stdout, c.want) {
			t.Errorf("completing %q: exit %d, %q, want %q", c.typed, code, stdout, c.want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, stdout, stderr := rotaRuns(t.Context(), "completion", shell); code != 0 || !strings.Contains(stdout, "rota") {
			t.Errorf("completion %s: exit %d, %q", shell, code, stderr)
		}
	}
}

// What rota's processes tell each other by hidden flags comes neither from a file
// nor from the environment: --scratch removes a folder.
func TestHiddenFlagsAreNoSettings(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("rota.yaml", []byte("scratch: mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("tether.yaml", []byte("tether: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, key := range map[string]string{"rota.yaml": "scratch", "tether.yaml": "tether"} {
		code, _, stderr := rotaRuns(t.Context(), "serve", "--listen", "nonsense", "--config", file)
		if code != cli.ExitUsage || !strings.Contains(stderr, file+":1: "+key+": there is no such setting") {
			t.Errorf("--config %s: exit %d, %q", file, code, stderr)
		}
	}
	t.Setenv("ROTA_SCRATCH", "mine")
	t.Setenv("ROTA_TETHER", "true")
	for _, cmd := range []*cobra.Command{demo.ServeCmd(), agent.RunCmd()} {
		rootCmd().AddCommand(cmd)
		if err := cli.ApplySettings(cmd); err != nil {
			t.Fatal(err)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden && f.Changed {
				t.Errorf("rota %s takes --%s from the environment", cmd.Name(), f.Name)
			}
		})
	}
}

// rota --version and rota version say the same, for people and for programs.
func TestVersionIsAFlagToo(t *testing.T) {
	_, command, _ := rotaRuns(t.Context(), "version")
	code, flag, _ := rotaRuns(t.Context(), "--version")
	_, shape, _ := rotaRuns(t.Context(), "version", "-o", "json")
	var build cli.Build
	if err := json.Unmarshal([]byte(shape), &build); err != nil || code != 0 || flag != command || !strings.HasPrefix(flag, "rota "+build.Version+" ") || build.Go == "" {
		t.Errorf("exit %d, --version says %q, version %q and %q, %v", code, flag, command, shape, err)
	}
}

// A misspelt variable would be ignored silently. What others put there, and what rota
// gives to commands, is left alone.
func TestMisspeltVariablesAreTold(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, told := range map[string]string{
		"ROTA_LEESE": "rota: warning: ROTA_LEESE is no setting, and is ignored: is ROTA_LEASE meant?\n", "ROTA_QUIET_TIMES": "", "ROTA_HARTBEAT": "is ROTA_HEARTBEAT meant?\n",
		"ROTA_PARTITION": "", "ROTA_TOKEN": "", "ROTA_ATTEMPT": "", "ROTA_MESSAGE_ID": "", "ROTA_PORT": "", "ROTA_SERVICE_HOST": "", "ROTA_STORES": "", "ROTA_LEASE": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "3s")
			_, _, stderr := rotaRuns(t.Context(), "status")
			if warned := strings.Contains(stderr, "warning"); warned != (told != "") || !strings.Contains(stderr, told) {
				t.Errorf("said %q", stderr)
			}
		})
	}
}

// Labels are pairs, and a file may have them as such.
func TestLabelsMayBeAMap(t *testing.T) {
	t.Chdir(t.TempDir())
	for text, want := range map[string]string{"label:\n  pod: p1\n  zone: z1\n": "[pod=p1,zone=z1]", "label: {pod: p1}\n": "[pod=p1]", "label: {pod: [p1]}\n": "rota.yaml:1: label: want lines such as zone: eu"} {
		if err := os.WriteFile("rota.yaml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("ROTA_CONFIG", "rota.yaml")
		cmd := agent.RunCmd()
		rootCmd().AddCommand(cmd)
		got := ""
		if err := cli.ApplySettings(cmd); err != nil {
			got = err.Error()
		} else {
			got = cmd.Flag("label").Value.String()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// A folder keeps its partitions: rota up neither says another number nor runs fewer.
func TestUpKeepsThePartitionsOfItsFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir(connect.DefaultDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := connect.WriteNote(connect.DefaultDir, connect.Note{Group: "demo", Source: "stream=DEMO&subject=demo.*&partitions=16"}); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := rotaRuns(t.Context(), "up", "--partitions", "2")
	if want := "rota: --partitions 2: the group in rota-data has 16, which stay: give as many or more, name another folder with --dir, or remove rota-data\n"; code != cli.ExitUsage || stderr != want {
		t.Errorf("exit %d, %q", code, stderr)
	}
	if n := connect.FolderPartitions(connect.DefaultDir); n != 16 {
		t.Errorf("the folder has %d", n)
	}
	if n := connect.FolderPartitions("elsewhere"); n != 0 {
		t.Errorf("no folder has %d", n)
	}
}
