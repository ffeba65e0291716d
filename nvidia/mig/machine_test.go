package mig

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/sim/facts"
)

// looked is the output of look.sh on a machine with three cards: divided, with a mode that
// waits, and one that cannot be divided.
const looked = `
=== layout
0 3g.20gb:4,3g.20gb:0

=== program
PROGRAM
=== unit
UNIT
=== enabled
enabled

=== said
-- No entries --

=== gpus
0, GPU-5b1c3a52-7d3c-4b0e-9c55-1f2e3d4c5b6a, Enabled, Enabled, 0x20F110DE, NVIDIA A100-PCIE-40GB
1, GPU-0e9d8c7b-6a5f-4e3d-8c2b-1a0f9e8d7c6b, Disabled, Enabled, 0x20F110DE, NVIDIA A100-PCIE-40GB
2, GPU-1e9d8c7b-6a5f-4e3d-8c2b-1a0f9e8d7c6b, [N/A], [N/A], 0x1EB810DE, Tesla T4

=== instances
GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-5b1c3a52-7d3c-4b0e-9c55-1f2e3d4c5b6a)
  MIG 3g.20gb     Device  0: (UUID: MIG-c7384736-a75d-5afc-978f-d2f1294409fd)
  MIG 3g.20gb     Device  1: (UUID: MIG-a28ad590-3fda-56dd-84fc-0a0b96edc58d)
GPU 1: NVIDIA A100-PCIE-40GB (UUID: GPU-0e9d8c7b-6a5f-4e3d-8c2b-1a0f9e8d7c6b)
GPU 2: Tesla T4 (UUID: GPU-1e9d8c7b-6a5f-4e3d-8c2b-1a0f9e8d7c6b)

=== end
`

func state(t *testing.T) State {
	t.Helper()
	s, err := parse(strings.NewReplacer("PROGRAM", divideScript, "UNIT", unitText).Replace(looked))
	require.NoError(t, err)
	return s
}

// What differs, per card and of the service that divides them at boot.
func TestDiff(t *testing.T) {
	half := map[string]int{"3g.20gb": 2}
	s := state(t)
	require.Len(t, s.GPUs, 3)
	assert.Empty(t, s.Messages)
	assert.Empty(t, s.Diff([]Layout{{Index: 0, Profiles: half}}))
	for _, x := range []struct {
		want []Layout
		say  []string
	}{
		{[]Layout{{Index: 0, Profiles: map[string]int{"1g.5gb": 7}}}, []string{
			"service: with another layout, or not enabled → homelab-mig.service divides the GPUs at every boot", "GPU 0: 2 of 3g.20gb → 7 of 1g.5gb (needs a restart)"}},
		{[]Layout{{Index: 0, Profiles: half}, {Index: 1}}, []string{
			"service: with another layout, or not enabled → homelab-mig.service divides the GPUs at every boot", "GPU 1: whole, MIG mode pending → whole (needs a restart)"}},
		{[]Layout{{Index: 0}}, []string{"service: homelab-mig.service → none: no GPU is divided", "GPU 0: 2 of 3g.20gb → whole (needs a restart)"}},
		{[]Layout{{Index: 0, Profiles: half}, {Index: 2, Profiles: half}}, []string{
			"service: homelab-mig.service", "GPU 2: whole → 2 of 3g.20gb (needs a restart) [Tesla T4 cannot be divided]"}},
		{[]Layout{{Index: 3, Profiles: half}}, []string{"service: homelab-mig.service", "GPU 3: missing → 2 of 3g.20gb (needs a restart) [the driver sees no such GPU]"}},
	} {
		var have []string
		for _, f := range s.Diff(x.want) {
			have = append(have, f.String())
		}
		assert.Equal(t, x.say, have)
	}
	s.GPUs[0].Pending = false
	assert.Equal(t, "GPU 0: 2 of 3g.20gb, whole once the card is reset → 2 of 3g.20gb (needs a restart)", s.DiffGPUs([]Layout{{Index: 0, Profiles: half}}).String())
	s.GPUs[0].Pending, s.GPUs[0].Instances = true, nil
	assert.Equal(t, "GPU 0: in MIG mode, without instances → 2 of 3g.20gb (needs a restart)", s.DiffGPUs([]Layout{{Index: 0, Profiles: half}}).String())
	for _, s := range []State{{layout: "x"}, {program: "x"}, {unit: "x"}} {
		assert.Equal(t, "service: homelab-mig.service → none: no GPU is divided", s.Diff(nil).String())
	}
	s = state(t)
	for _, change := range []func(*State){func(s *State) { s.layout += "x" }, func(s *State) { s.program += "x" }, func(s *State) { s.unit += "x" }, func(s *State) { s.enabled = false }} {
		other := s
		change(&other)
		assert.Equal(t, "service: with another layout, or not enabled → homelab-mig.service divides the GPUs at every boot", other.Diff([]Layout{{Index: 0, Profiles: half}}).String())
	}
	s.layout, s.program, s.unit = "", "", ""
	assert.Equal(t, "service: homelab-mig.service divides the GPUs at every boot", s.Diff([]Layout{{Index: 0, Profiles: half}}).String())
	assert.Empty(t, State{}.Diff(nil))
	assert.Len(t, State{}.Diff([]Layout{{Profiles: half}}), 2)
}

// The file has instances with their places, the largest first; without places where only the
// driver knows them; and a layout that does not fit is refused before anything is written.
func TestFile(t *testing.T) {
	s := state(t)
	text, err := s.file([]Layout{{Index: 0, Profiles: map[string]int{"1g.5gb": 2, "4g.20gb": 1}}, {Index: 1}})
	require.NoError(t, err)
	assert.Equal(t, "0 4g.20gb:0,1g.5gb:6,1g.5gb:5\n1 off\n", text)
	s.GPUs[0].Kind.ID.Device = 0x2328 // not documented
	text, err = s.file([]Layout{{Index: 0, Profiles: map[string]int{"1g.5gb": 2, "4g.20gb": 1}}})
	require.NoError(t, err)
	assert.Equal(t, "0 4g.20gb,1g.5gb,1g.5gb\n", text)

	var wrote []string
	r := remote.RunnerFunc(func(_ context.Context, c remote.Cmd) error {
		if c.Stdout != nil {
			_, _ = c.Stdout.Write([]byte(looked))
			return nil
		}
		wrote = append(wrote, c.String())
		return nil
	})
	err = Install(t.Context(), r, []Layout{{Index: 1, Profiles: map[string]int{"3g.20gb": 3}}, {Index: 2, Profiles: map[string]int{"3g.20gb": 1}}})
	require.ErrorContains(t, err, "GPU 1: A100 40GB: it holds 2 of 3g.20gb, not 3: write 2 or less")
	assert.ErrorContains(t, err, "GPU 2: Tesla T4 (Turing): this GPU cannot be divided into instances")
	assert.Empty(t, wrote)
	require.ErrorContains(t, s.Check([]Layout{{Index: 1, Profiles: map[string]int{"3g.20gb": 3}}}), "it holds 2 of 3g.20gb, not 3")
	require.ErrorContains(t, s.Check([]Layout{{Index: 7, Profiles: map[string]int{"3g.20gb": 3}}}), "GPU 7: the driver sees no such GPU")
	require.NoError(t, s.Check([]Layout{{Index: 1, Profiles: map[string]int{"3g.20gb": 2}}, {Index: 7}}))
}

// guest runs commands, of which one fails, with the answer of look.sh and of test.
func guest(fails string, unit bool) (remote.Runner, *[]string) {
	ran := new([]string)
	return remote.RunnerFunc(func(_ context.Context, c remote.Cmd) error {
		text := c.String()
		if strings.HasPrefix(text, "sh -c") && c.Stdout != nil {
			text = "look"
			_, _ = c.Stdout.Write([]byte(looked))
		} else if strings.Contains(text, "/etc/homelab/mig.layout") && !strings.HasPrefix(text, "rm") {
			text = "write layout"
		} else if strings.Contains(text, "/usr/local/sbin/homelab-mig") && !strings.HasPrefix(text, "rm") {
			text = "write program"
		} else if strings.Contains(text, unitFile) && !strings.HasPrefix(text, "rm") {
			text = "unit file"
		}
		*ran = append(*ran, text)
		switch {
		case fails != "" && strings.HasPrefix(text, fails):
			return errors.New("the connection is lost")
		case strings.HasPrefix(c.Args[0], "test") && !unit:
			return &remote.ExitError{Code: 1}
		}
		return nil
	}), ran
}

// Install and Remove run each command once all before it has succeeded, and say what failed.
func TestInstallAndRemove(t *testing.T) {
	want := []Layout{{Index: 0, Profiles: map[string]int{"3g.20gb": 2}}}
	install := []string{"look", "write layout", "write program", "unit file", "systemctl daemon-reload", "systemctl enable homelab-mig.service"}
	remove := []string{"unit file", "systemctl disable --now homelab-mig.service", "rm -f /etc/homelab/mig.layout /usr/local/sbin/homelab-mig " + unitFile, "systemctl daemon-reload"}
	for _, x := range []struct {
		do    func(context.Context, remote.Runner) error
		steps []string
	}{{func(ctx context.Context, r remote.Runner) error { return Install(ctx, r, want) }, install}, {Remove, remove}} {
		for i := range len(x.steps) + 1 {
			fails := append(slices.Clone(x.steps), "")[i]
			r, ran := guest(fails, true)
			err := x.do(t.Context(), r)
			if fails == "" {
				require.NoError(t, err)
				assert.Equal(t, x.steps, *ran)
				continue
			}
			require.ErrorContains(t, err, "the connection is lost", fails)
			assert.Equal(t, x.steps[:i+1], (*ran)[:i+1])
		}
	}
	r, ran := guest("", false)
	require.NoError(t, Remove(t.Context(), r))
	assert.Equal(t, []string{"unit file", "rm -f /etc/homelab/mig.layout /usr/local/sbin/homelab-mig"}, *ran, "what was left by a run that was cut off")
}

// nvidia-smi's words when it cannot say anything are the error.
func TestObserveWithoutDriver(t *testing.T) {
	_, err := parse("=== gpus\nNVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n=== end\n")
	assert.ErrorContains(t, err, "nvidia-smi: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
	for line, want := range map[string]string{"-1, u, Enabled, Enabled, 0x20F110DE, A100": "nvidia-smi: -1, u", "x, u, Enabled, Enabled, 0x20F110DE, A100": "nvidia-smi: x, u", "0, u, Enabled, Enabled, A100, A100": "nvidia-smi: GPU 0: "} {
		_, err := parse("=== gpus\n" + line + "\n=== end\n")
		assert.ErrorContains(t, err, want)
	}
	s, err := parse("=== said\n-- No entries --\n GPU 0 is busy \n\n=== gpus\n0, u, Disabled, Disabled, 0xFFFF10DE, Future\n1, u, Disabled, Disabled, 0x20F110DE, A100\n=== end\n")
	require.NoError(t, err)
	assert.Equal(t, []string{"GPU 0 is busy"}, s.Messages)
	assert.Equal(t, []any{"Future", 1, true, 7}, []any{s.GPUs[0].Kind.Name, s.GPUs[0].Kind.MIGInstances, s.GPUs[0].Capable, s.GPUs[1].Kind.MIGInstances}, "it is newer than the table")
	_, err = parse("=== gpus\n")
	assert.ErrorContains(t, err, "the output is truncated")
}

func FuzzParse(f *testing.F) {
	f.Add(looked)
	f.Add("=== instances\nGPU 99999999999999999999: x\n=== end\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parse(text)
		if err == nil {
			_ = s.Diff([]Layout{{Index: 0, Profiles: map[string]int{"3g.20gb": 2}}}).String()
		}
	})
}

func TestScripts(t *testing.T) {
	facts.Program(t, "shellcheck", "shellcheck")
	scripts, err := filepath.Glob("*.sh")
	require.NoError(t, err)
	require.Len(t, scripts, 2)
	out, err := exec.CommandContext(t.Context(), "shellcheck", scripts...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// A GPU in MIG mode that has no instances is divided, whether nvidia-smi calls that an error or not.
func TestDivideAnUndividedGPU(t *testing.T) {
	text, err := os.ReadFile("divide.sh")
	require.NoError(t, err)
	for _, status := range []string{"0", "6"} {
		dir := t.TempDir()
		script := filepath.Join(dir, "divide.sh")
		require.NoError(t, os.WriteFile(script, []byte(strings.Replace(string(text), "/etc/homelab/mig.layout", filepath.Join(dir, "layout"), 1)), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "layout"), []byte("0 3g.40gb:0\n"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(`#!/bin/sh
case "$*" in
*mig.mode.current*) echo Enabled ;;
-L) echo "GPU 0: NVIDIA H100 (UUID: GPU-1)" ;;
*-lgi) echo "No GPU instances found: Not Found"; exit `+status+` ;;
*-dci | *-dgi) echo "No instances found: Not Found"; exit 6 ;;
*-cgi*) echo "created $*" ;;
esac
`), 0o700)) //nolint:gosec // a program
		cmd := exec.CommandContext(t.Context(), "sh", script)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		assert.Equal(t, "created mig -i 0 -cgi 3g.40gb:0 -C\n", string(out))
	}
}

// A mode that stays pending ends the program with a status, and Switch succeeds; a broken connection is an error.
func TestSwitch(t *testing.T) {
	for _, x := range []struct{ said, want error }{{nil, nil}, {&remote.ExitError{Code: 1}, nil}, {os.ErrDeadlineExceeded, os.ErrDeadlineExceeded}} {
		assert.ErrorIs(t, Switch(t.Context(), stubRunner{x.said}), x.want)
	}
	assert.ErrorContains(t, Divide(t.Context(), stubRunner{&remote.ExitError{Code: 1}}), "divide the GPUs")
	for said, fails := range map[string]bool{"MIG mode is pending until the machine has been switched off": false, "in use": true} {
		err := Divide(t.Context(), remote.RunnerFunc(func(_ context.Context, c remote.Cmd) error {
			_, _ = c.Stdout.Write([]byte(said + "\n"))
			return &remote.ExitError{Code: 1}
		}))
		assert.Equal(t, fails, err != nil)
		if fails {
			assert.True(t, strings.HasSuffix(err.Error(), "\nin use"), err)
		}
	}
	require.NoError(t, Divide(t.Context(), stubRunner{}))
}

type stubRunner struct{ err error }

func (s stubRunner) Run(context.Context, remote.Cmd) error { return s.err }
