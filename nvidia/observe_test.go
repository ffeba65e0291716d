package nvidia

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/sim/facts"
)

// machine is a runner that runs the real script on this machine, with a PATH in
// which a test has put programs that answer as those of a GPU machine do.
type machine struct {
	bin string
	ran []string
}

func newMachine(t *testing.T, programs map[string]string) *machine {
	t.Helper()
	m := &machine{bin: t.TempDir()}
	for name, body := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(m.bin, name), []byte("#!/bin/sh\n"+body), 0o755))
	}
	return m
}

func (m *machine) Run(ctx context.Context, cmd remote.Cmd) error {
	m.ran = append(m.ran, cmd.String())
	program := filepath.Join(m.bin, cmd.Args[0])
	if _, err := os.Stat(program); err != nil { // of this machine's own, only what does nothing by itself
		program = map[string]string{"sh": "/bin/sh", "env": "/usr/bin/env"}[cmd.Args[0]]
	}
	c := exec.CommandContext(ctx, program, cmd.Args[1:]...)
	c.Env = []string{"PATH=" + m.bin + ":/usr/bin:/bin"}
	c.Stdin, c.Stdout, c.Stderr = cmd.Stdin, cmd.Stdout, cmd.Stderr
	err := c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return &remote.ExitError{Args: cmd.Args, Code: exit.ExitCode()}
	}
	return err
}

var driver580 = Recipe{Driver: Driver{DefaultBranch, Open}}

// healthy is the answer of a machine on which all is well.
func healthy(t testing.TB) string {
	t.Helper()
	var pkgs strings.Builder
	for _, p := range driver580.Holds() {
		fmt.Fprintf(&pkgs, "%s 580.173.02-0ubuntu0.24.04.1 installed\n", p)
	}
	for _, p := range (Toolkit{}).holds() {
		fmt.Fprintf(&pkgs, "%s %s installed\n", p, ToolkitVersion)
	}
	held := strings.Join(append(driver580.Holds(), (Toolkit{}).holds()...), "\n")
	return "\n=== kernel\n6.8.0-85-generic\n\n=== loaded\n" +
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.173.02  Release Build  (buildd@lcy02)  Fri Aug 21 10:00:00 UTC 2026\nGCC version:  gcc version 13.3.0\n" +
		"\n=== packages\n" + pkgs.String() + "nvidia-old 1 config-files\n\n=== held\n" + held + "\n\n=== runtime\n/usr/bin/nvidia-container-runtime\n" +
		"\n=== containerd\nnvidia\n\n=== log\n\n=== smi\n" + string(sample(t)) + "\n=== end\n0\n"
}

func TestHealthyMachineHasNothingToDo(t *testing.T) {
	s, err := parseObservation(healthy(t))
	require.NoError(t, err)
	assert.Equal(t, "6.8.0-85-generic", s.Kernel)
	assert.Equal(t, "580.173.02", s.Loaded)
	assert.True(t, s.LoadedOpen)
	assert.NoError(t, s.SMIError)
	assert.Len(t, s.GPUs(), 2)
	assert.NotContains(t, s.Packages, "nvidia-old", "removed, its configuration left behind")
	assert.Empty(t, driver580.Diff(s))
	assert.Empty(t, Toolkit{}.Diff(s))
	assert.Empty(t, DiffGPUs(s, 2))
	assert.Equal(t, "gpus: 2 → 3 (needs a restart)", DiffGPUs(s, 3).String())
}

// What goes wrong on real machines, and the words for it.
func TestDiffSaysWhatToDo(t *testing.T) {
	smi := func(said string) func(string) string {
		return func(s string) string { return strings.Replace(s, string(sample(t)), said+"\n", 1) }
	}
	for name, tc := range map[string]struct {
		change func(string) string
		want   []string
	}{
		"N1, flavour": {func(s string) string {
			s = strings.Replace(s, "=== log\n", "=== log\nNVRM: installed in this system requires use of the NVIDIA open kernel modules.\n", 1)
			s = strings.Replace(s, "NVRM version", "x", 1)
			return smi("No devices were found")(s)
		}, []string{"driver: not loaded → 580-server-open (needs a restart)", "choose the -open series"}},
		"N1, branch": {func(s string) string {
			s = strings.Replace(s, "=== log\n", "=== log\nNVRM: RmInitAdapter failed! (0x22:0x56:884)\n", 1)
			return strings.Replace(s, "NVRM version", "x", 1)
		}, []string{"could not initialize the GPU"}},
		"PX7, no room for its memory": {func(s string) string {
			s = strings.Replace(s, "=== log\n", "=== log\nNVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\nNVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)\n", 1)
			return strings.Replace(s, "NVRM version", "x", 1)
		}, []string{"needs machine type q35, OVMF and CPU type host"}},
		"N2": {smi("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.180"), []string{
			"driver: module 580.173.02 → module and libraries of one version (needs a restart)", "drain the node, restart it"}},
		"N3, order": {func(s string) string { return strings.Replace(s, "\nnvidia\n", "\nplain\n", 1) }, []string{
			"containerd: no runtime nvidia → runtime nvidia (needs a restart)", "restart k3s-agent"}},
		"CRI-O": {func(s string) string { return strings.Replace(s, "\nnvidia\n", "\ncrio\n", 1) }, []string{
			"containerd: no runtime nvidia → runtime nvidia", "restart crio; pods keep running"}},
		"N3, template": {func(s string) string {
			return strings.Replace(s, "\nnvidia\n", "\ntemplate /var/lib/rancher/k3s/agent/etc/containerd/config.toml.tmpl\nnvidia\n", 1)
		}, []string{"config.toml.tmpl", "remove the file and restart K3s"}},
		"no runtime": {func(s string) string { return strings.Replace(s, "/usr/bin/nvidia-container-runtime\n", "", 1) }, []string{"install nvidia-container-toolkit"}},
		"secure boot": {func(s string) string {
			s = strings.Replace(s, "=== log\n", "=== log\nmodprobe: Key was rejected by service\n", 1)
			return strings.Replace(s, "NVRM version", "x", 1)
		}, []string{"Secure Boot refuses the module"}},
		"another branch is loaded": {func(s string) string { return strings.Replace(s, "x86_64  580.173.02", "x86_64  570.211.01", 1) }, []string{
			"driver: 570.211.01 → 580-server-open (needs a restart)"}},
		"another flavour is loaded": {func(s string) string { return strings.Replace(s, "UNIX Open Kernel Module for", "UNIX", 1) }, []string{
			"driver: proprietary modules → open modules (needs a restart)"}},
		"package missing": {func(s string) string {
			return strings.Replace(s, "nvidia-utils-580-server 580.173.02-0ubuntu0.24.04.1 installed\n", "", 1)
		}, []string{
			"package/nvidia-utils-580-server: installed"}},
		"not held": {func(s string) string { return strings.Replace(s, "=== held\nlinux-generic\n", "=== held\n", 1) }, []string{
			"hold/linux-generic: may change by itself → held"}},
		"old toolkit": {func(s string) string {
			return strings.Replace(s, "nvidia-container-toolkit 1.20.1-1", "nvidia-container-toolkit 1.17.0-1", 1)
		}, []string{"package/nvidia-container-toolkit: 1.17.0-1 → 1.20.1-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := tc.change(healthy(t))
			require.NotEqual(t, healthy(t), text, "the case changes nothing")
			s, err := parseObservation(text)
			require.NoError(t, err)
			got := append(driver580.Diff(s), Toolkit{}.Diff(s)...).String()
			for _, want := range tc.want {
				assert.Contains(t, got, want)
			}
		})
	}
}

func TestObserveBareMachine(t *testing.T) {
	s, err := ObserveDriver(t.Context(), newMachine(t, nil))
	require.NoError(t, err)
	assert.NotEmpty(t, s.Kernel)
	assert.Empty(t, s.Loaded)
	assert.ErrorIs(t, s.SMIError, ErrNotInstalled)
	assert.NotEmpty(t, driver580.Diff(s))
}

func TestObserveRunsPrograms(t *testing.T) {
	report, err := filepath.Abs("testdata/a100.xml")
	require.NoError(t, err)
	m := newMachine(t, map[string]string{
		"nvidia-smi":               "cat " + report,
		"uname":                    "echo 6.8.0-85-generic",
		"apt-mark":                 "echo linux-generic",
		"dpkg-query":               "echo 'linux-generic 6.8.0-85.85 installed'; exit 1",
		"dmesg":                    "echo 'NVRM: loading'; echo other",
		"nvidia-container-runtime": "",
	})
	s, err := ObserveDriver(t.Context(), m)
	require.NoError(t, err)
	assert.Len(t, m.ran, 1, "one round trip")
	assert.Equal(t, "6.8.0-85-generic", s.Kernel)
	assert.Equal(t, []string{"linux-generic"}, s.Held)
	assert.Equal(t, map[string]string{"linux-generic": "6.8.0-85.85"}, s.Packages)
	assert.Equal(t, []string{"NVRM: loading"}, s.Log)
	assert.Equal(t, filepath.Join(m.bin, "nvidia-container-runtime"), s.Runtime)
	assert.Len(t, s.GPUs(), 2)
}

func TestObservationCutShort(t *testing.T) {
	_, err := parseObservation("=== kernel\n6.8\n")
	assert.ErrorContains(t, err, "truncated")
}

// Installing is apt's work; here it is looked at what apt is told, and that a
// machine on which all is there is left alone.
func TestInstall(t *testing.T) {
	m := newMachine(t, nil)
	log := filepath.Join(m.bin, "log")
	for _, name := range []string{"apt-get", "apt-mark", "curl"} {
		body := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = showhold ] || echo %s \"$@\" >>%s\n", name, log)
		require.NoError(t, os.WriteFile(filepath.Join(m.bin, name), []byte(body), 0o755))
	}
	require.NoError(t, InstallDriver(t.Context(), m, driver580))
	said, err := os.ReadFile(log)
	require.NoError(t, err)
	assert.Equal(t, `apt-get --quiet -o DPkg::Lock::Timeout=300 update
apt-get --quiet -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends --allow-change-held-packages linux-generic linux-modules-nvidia-580-server-open-generic nvidia-headless-no-dkms-580-server-open nvidia-utils-580-server libnvidia-decode-580-server libnvidia-encode-580-server
apt-mark hold linux-generic linux-modules-nvidia-580-server-open-generic nvidia-headless-no-dkms-580-server-open nvidia-utils-580-server libnvidia-decode-580-server libnvidia-encode-580-server linux-image-generic linux-headers-generic nvidia-kernel-common-580-server nvidia-compute-utils-580-server libnvidia-compute-580-server
`, string(said))

	require.NoError(t, os.WriteFile(filepath.Join(m.bin, "apt-get"), []byte("#!/bin/sh\necho no such package >&2; exit 100\n"), 0o755))
	err = InstallDriver(t.Context(), m, driver580)
	assert.ErrorContains(t, err, "install NVIDIA driver 580-server-open: ")
}

func TestInstallLeavesACompleteMachineAlone(t *testing.T) {
	var ran int
	answer := remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
		ran++
		_, err := bytes.NewBufferString(healthy(t)).WriteTo(cmd.Stdout)
		return err
	})
	require.NoError(t, InstallDriver(t.Context(), answer, driver580))
	require.NoError(t, InstallToolkit(t.Context(), answer, Toolkit{}))
	assert.Equal(t, 2, ran, "one look each, and nothing else")
}

func FuzzParseObservation(f *testing.F) {
	f.Add(healthy(f))
	f.Add("=== end\n")
	f.Add("=== containerd\ntemplate x\n=== smi\n<nvidia_smi_log>\n=== end\n1\n")
	f.Fuzz(func(t *testing.T, out string) {
		s, err := parseObservation(out)
		if err != nil {
			return
		}
		_ = driver580.Diff(s).String()
		_ = Toolkit{}.Diff(s).String()
		_ = DiffGPUs(s, 1).String()
	})
}

func TestScriptsPassShellcheck(t *testing.T) {
	facts.Program(t, "shellcheck", "shellcheck")
	scripts, err := filepath.Glob("*.sh")
	require.NoError(t, err)
	require.NotEmpty(t, scripts)
	out, err := exec.Command("shellcheck", scripts...).CombinedOutput()
	assert.NoError(t, err, "%s", out)
}

// Errors that the end of a log has, too, are told once.
func TestBuildLogIsItsErrorsAndItsEnd(t *testing.T) {
	assert.Equal(t, []string{"a: error", "…", "make: stop"}, buildLog([]string{"a: error"}, []string{"make: stop"}))
	assert.Equal(t, []string{"a: error", "make: stop"}, buildLog([]string{"a: error"}, []string{"a: error", "make: stop"}))
	assert.Equal(t, []string{"make: stop"}, buildLog(nil, []string{"make: stop"}))
	assert.Empty(t, buildLog(nil, nil))
}
