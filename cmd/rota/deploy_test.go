package main

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

const deployDir = "../../deploy"

func readDeploy(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(deployDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// parsed is the real command of some arguments, with its flags set.
func parsed(t *testing.T, what string, args []string) *cobra.Command {
	t.Helper()
	cmd, rest, err := rootCmd().Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil {
		err = cmd.ValidateArgs(cmd.Flags().Args())
	}
	if err != nil || !cmd.Runnable() {
		t.Fatalf("%s: rota %s: %v", what, strings.Join(args, " "), err)
	}
	return cmd
}

// couldRun runs a member as far as one can without its store: settings, URLs and
// handlers are those of the real command. It waits for a file that is never there, and is
// asked to end.
func couldRun(t *testing.T, what string, args []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	args = append(slices.Clone(args), "--health=", "--start-gate="+filepath.Join(t.TempDir(), "never"))
	if code, stdout, stderr := rotaRuns(ctx, args...); code != 0 || strings.Contains(stderr, "warning") {
		t.Errorf("%s: rota %s: exit %d, %s%s", what, strings.Join(args, " "), code, stdout, stderr)
	}
}

func touch(t *testing.T, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// enoughGrace fails if a member that is asked to end could be killed before it has
// finished its messages and said so.
func enoughGrace(t *testing.T, what string, cmd *cobra.Command, grace time.Duration) {
	t.Helper()
	stop, err := time.ParseDuration(cmd.Flag("stop-time").Value.String())
	lease, bad := time.ParseDuration(cmd.Flag("lease").Value.String())
	if least := stop + lease + time.Second; errors.Join(err, bad) != nil || grace <= least {
		t.Errorf("%s: %v of grace, and a member may take %v (%v, %v)", what, grace, least, err, bad)
	}
}

// healthPort is where a command listens for probes, on every interface.
func healthPort(t *testing.T, what string, cmd *cobra.Command) string {
	t.Helper()
	host, port, err := net.SplitHostPort(cmd.Flag("health").Value.String())
	if err != nil || host != "" {
		t.Errorf("%s: probes come from outside, and --health is %q", what, cmd.Flag("health").Value)
	}
	return port
}

func TestUnitIsRight(t *testing.T) {
	unit := map[string][]string{}
	for line := range strings.Lines(readDeploy(t, "systemd/rota.service")) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			unit[key] = append(unit[key], value)
		}
	}
	start := strings.Fields(strings.ReplaceAll(unit["ExecStart"][0], "%H", "host-1"))
	if start[0] != "/usr/local/bin/rota" {
		t.Errorf("it starts %s", start[0])
	}
	at := slices.Index(start, "/etc/rota/rota.yaml")
	start[at] = filepath.Join(deployDir, "systemd", "rota.yaml")
	cmd := parsed(t, "the unit", start[1:])
	couldRun(t, "the unit", start[1:])
	grace, err := time.ParseDuration(unit["TimeoutStopSec"][0] + "s")
	if err != nil {
		t.Error(err)
	}
	enoughGrace(t, "the unit", cmd, grace)
	for key, want := range map[string]string{"KillMode": "mixed", "Restart": "on-failure", "RestartPreventExitStatus": "64", "DynamicUser": "yes", "Delegate": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict"} {
		if got := strings.Join(unit[key], ","); got != want {
			t.Errorf("%s=%s, want %s", key, got, want)
		}
	}
}

// TestUnitIsVerified asks systemd itself, where it is installed.
func TestUnitIsVerified(t *testing.T) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("NOT INSTALLED: systemd-analyze; TestUnitIsRight has read the unit")
		return
	}
	text := strings.ReplaceAll(readDeploy(t, "systemd/rota.service"), "/usr/local/bin/rota", os.Args[0])
	verify := func(text string) (string, error) {
		file := filepath.Join(t.TempDir(), "rota.service")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), tool, "verify", file).CombinedOutput()
		return string(out), err
	}
	if out, err := verify(text); err != nil || strings.Contains(out, "rota.service") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	if out, err := verify(strings.Replace(text, "KillMode=mixed", "KillMode=gently", 1)); err == nil && !strings.Contains(out, "gently") {
		t.Errorf("systemd-analyze verifies everything: %s", out)
	}
}

// A manifest is as much of a Kubernetes object as is looked at here.
type manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Rules      []map[string][]string
	RoleRef    struct{ Kind, Name string } `yaml:"roleRef"`
	Subjects   []struct{ Kind, Name, Namespace string }
	Spec       struct {
		ServiceName string `yaml:"serviceName"`
		Selector    struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
			App         string
		}
		MaxUnavailable int `yaml:"maxUnavailable"`
		Template       struct {
			Metadata struct{ Labels map[string]string }
			Spec     podSpec
		}
	}
}

type podSpec struct {
	ServiceAccountName string `yaml:"serviceAccountName"`
	Automount          *bool  `yaml:"automountServiceAccountToken"`
	Grace              int    `yaml:"terminationGracePeriodSeconds"`
	SecurityContext    struct {
		RunAsNonRoot bool `yaml:"runAsNonRoot"`
		RunAsUser    int  `yaml:"runAsUser"`
	} `yaml:"securityContext"`
	Containers []struct {
		Args  []string
		Env   []struct{ Name string }
		Ports []struct {
			Name          string
			ContainerPort string `yaml:"containerPort"`
		}
		Liveness        probeSpec `yaml:"livenessProbe"`
		Readiness       probeSpec `yaml:"readinessProbe"`
		SecurityContext struct {
			Escalation *bool `yaml:"allowPrivilegeEscalation"`
			ReadOnly   bool  `yaml:"readOnlyRootFilesystem"`
		} `yaml:"securityContext"`
	}
}

type probeSpec struct {
	Get            struct{ Path, Port string } `yaml:"httpGet"`
	TimeoutSeconds int                         `yaml:"timeoutSeconds"`
}

func manifests(t *testing.T, name string) map[string]manifest {
	t.Helper()
	all := map[string]manifest{}
	docs := yaml.NewDecoder(strings.NewReader(readDeploy(t, "kubernetes/"+name)))
	for {
		var m manifest
		err := docs.Decode(&m)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[m.Kind] = m
	}
}

func TestManifestsAreRight(t *testing.T) {
	kinds := map[string][]string{
		"deployment.yaml":  {"Deployment", "PodDisruptionBudget"},
		"statefulset.yaml": {"PodDisruptionBudget", "Service", "StatefulSet"},
		"scaled.yaml":      {"Deployment", "PodDisruptionBudget", "Role", "RoleBinding", "ServiceAccount"},
	}
	files, err := filepath.Glob(filepath.Join(deployDir, "kubernetes", "*"))
	if err != nil || len(files) != len(kinds) {
		t.Fatalf("%v, %v", files, err)
	}
	for name, want := range kinds {
		all := manifests(t, name)
		if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		work := all["Deployment"]
		if work.Kind == "" {
			work = all["StatefulSet"]
		}
		checkWorkload(t, name, work)
		budget := all["PodDisruptionBudget"].Spec
		if labels := work.Spec.Template.Metadata.Labels; !maps.Equal(budget.Selector.MatchLabels, labels) || !maps.Equal(work.Spec.Selector.MatchLabels, labels) || budget.MaxUnavailable != 1 {
			t.Errorf("%s: the budget is for %v, the workload for %v, its pods have %v", name, budget.Selector.MatchLabels, work.Spec.Selector.MatchLabels, labels)
		}
	}
	set := manifests(t, "statefulset.yaml")
	if name := set["StatefulSet"].Spec.ServiceName; name != set["Service"].Metadata.Name || set["Service"].Spec.Selector.App != set["StatefulSet"].Spec.Template.Metadata.Labels["app"] {
		t.Errorf("the service %+v is not that of the StatefulSet, %s", set["Service"], name)
	}
}

// checkWorkload compares a workload with the command that its pods run.
func checkWorkload(t *testing.T, name string, work manifest) {
	t.Helper()
	pod := work.Spec.Template.Spec
	c := pod.Containers[0]
	args := make([]string, len(c.Args))
	for i, arg := range c.Args {
		args[i] = strings.ReplaceAll(arg, "$(POD_NAME)", work.Metadata.Name+"-7f-x2")
	}
	cmd := parsed(t, name, args)
	for _, v := range c.Env {
		flag := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(v.Name, "ROTA_")), "_", "-")
		if strings.HasPrefix(v.Name, "ROTA_") && cmd.Flag(flag) == nil {
			t.Errorf("%s: %s is no setting", name, v.Name)
		}
	}
	t.Setenv("ROTA_STORE", "nats://nats:4222")
	t.Setenv("ROTA_SOURCE", "nats://nats:4222?stream=ORDERS&subject=orders.*&partitions=64")
	for i, arg := range args {
		if strings.HasPrefix(arg, "--scaler=") { // in a pod it finds the rest by itself
			token := filepath.Join(t.TempDir(), "token")
			touch(t, token)
			args[i] += "?namespace=default&server=https://127.0.0.1:1&token-file=" + token
		}
	}
	couldRun(t, name, args)
	port := healthPort(t, name, cmd)
	if len(c.Ports) != 1 || c.Ports[0].Name != "health" || c.Ports[0].ContainerPort != port {
		t.Errorf("%s: ports %+v, and --health listens on %s", name, c.Ports, port)
	}
	for path, p := range map[string]probeSpec{"/healthz": c.Liveness, "/readyz": c.Readiness} {
		if p.Get.Path != path || p.Get.Port != "health" || p.TimeoutSeconds < 3 {
			t.Errorf("%s: the probe of %s is %+v", name, path, p)
		}
	}
	enoughGrace(t, name, cmd, time.Duration(pod.Grace)*time.Second)
	if s := c.SecurityContext; !pod.SecurityContext.RunAsNonRoot || pod.SecurityContext.RunAsUser == 0 || s.Escalation == nil || *s.Escalation || !s.ReadOnly {
		t.Errorf("%s: %+v, %+v", name, pod.SecurityContext, s)
	}
	if scaled := cmd.Flag("scaler").Value.String() != ""; scaled == (pod.Automount != nil) {
		t.Errorf("%s: scaled %v, and the token of its account is mounted: %v", name, scaled, pod.Automount)
	}
}

// The rights of a scaled group are those of the page, for a workload of another name.
func TestRightsAreThoseOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/scalers/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "For a Deployment.")
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(text)
	var want manifest
	renamed := strings.NewReplacer("[web]", "[orders]", "-web]", "-orders]").Replace(block[1])
	if err := yaml.Unmarshal([]byte(renamed), &want); err != nil {
		t.Fatal(err)
	}
	all := manifests(t, "scaled.yaml")
	if got := all["Role"]; len(want.Rules) == 0 || !reflect.DeepEqual(got.Rules, want.Rules) {
		t.Errorf("the role allows %v, the page %v", got.Rules, want.Rules)
	}
	work, binding, account := all["Deployment"], all["RoleBinding"], all["ServiceAccount"].Metadata.Name
	if b := binding; b.RoleRef.Name != all["Role"].Metadata.Name || len(b.Subjects) != 1 || b.Subjects[0].Name != account || b.Subjects[0].Namespace == "" || work.Spec.Template.Spec.ServiceAccountName != account {
		t.Errorf("%+v does not give %s the role", b, account)
	}
	if args := work.Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--scaler=k8s:deployment/"+work.Metadata.Name) {
		t.Errorf("%v scales something else than %s", args, work.Metadata.Name)
	}
}

// A composeFile is as much of one as is looked at here.
type composeFile struct {
	Services map[string]struct {
		Image       string
		Build       struct{ Context, Dockerfile string }
		Command     []string
		Deploy      struct{ Replicas int }
		Volumes     []string
		StopGrace   string `yaml:"stop_grace_period"`
		HealthCheck struct{ Test []string }
	}
	Volumes map[string]any
}

func readCompose(t *testing.T) (c composeFile) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(readDeploy(t, "compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestComposeFileIsRight(t *testing.T) {
	c := readCompose(t)
	built := c.Services["serve"].Build
	if _, err := os.Stat(filepath.Join(deployDir, built.Context, built.Dockerfile)); err != nil {
		t.Error(err)
	}
	for name, s := range c.Services {
		cmd := parsed(t, name, s.Command)
		if want := map[string]string{"serve": "serve", "member": "run", "producer": "produce"}[name]; cmd.Name() != want || s.Image != "rota" {
			t.Errorf("%s: runs %s of %s", name, cmd.Name(), s.Image)
		}
		for _, v := range s.Volumes {
			if from, _, _ := strings.Cut(v, ":"); !slices.Contains(slices.Collect(maps.Keys(c.Volumes)), from) {
				t.Errorf("%s: there is no volume %s", name, from)
			}
		}
	}
	member := c.Services["member"]
	cmd := parsed(t, "member", member.Command)
	grace, err := time.ParseDuration(member.StopGrace)
	if err != nil {
		t.Error(err)
	}
	enoughGrace(t, "member", cmd, grace)
	healthPort(t, "member", cmd)
	if check := c.Services["serve"].HealthCheck.Test; check[0] != "CMD" || parsed(t, "healthcheck", check[2:]).Name() != "groups" {
		t.Errorf("serve is checked by %v", check)
	}
	if member.Deploy.Replicas != 3 {
		t.Errorf("%d members", member.Deploy.Replicas)
	}
}
