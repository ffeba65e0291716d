package preflight

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote"
)

// TestProbeIsAShellScript runs the script here: whatever machine this is, it is no
// Proxmox host, and the script tells what it finds all the same.
func TestProbeIsAShellScript(t *testing.T) {
	here := remote.RunnerFunc(func(ctx context.Context, cmd remote.Cmd) error {
		run := exec.CommandContext(ctx, cmd.Args[0], cmd.Args[1:]...)
		run.Stdout = cmd.Stdout
		return run.Run()
	})
	p, err := readProbe(t.Context(), here)
	require.NoError(t, err)
	assert.NotEmpty(t, p.kernel)
	assert.NotEmpty(t, p.cmdline)
}

// TestPage holds the page that people read to what is looked at, or writes its table with -update.
func TestPage(t *testing.T) {
	const file, begin = "../../docs/host-check.md", "| id | what the check makes sure of | an error, or a warning (!), when |\n|---|---|---|\n"
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok)
	for strings.HasPrefix(rest, "|") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	var table strings.Builder
	for _, c := range checks() {
		fmt.Fprintf(&table, "| %s | %s | %s |\n", c.id, c.title, strings.NewReplacer("‘", "`", "’", "`").Replace(c.when))
	}
	head = regexp.MustCompile(`pve1: \d+ checks`).ReplaceAllString(head, fmt.Sprintf("pve1: %d checks", len(checks())))
	want := head + begin + table.String() + rest
	if flag.Lookup("update").Value.String() == "true" { // of the tests beside these
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, string(page), "run go test ./proxmox/preflight -run TestPage -update")
}

func TestParseProbe(t *testing.T) {
	p, err := parseProbe([]byte("Welcome to pve1!\nkernel 6.8.12-4-pve\ncmdline quiet iommu=pt\nmodule vfio /etc/modules\n" +
		"pci 0000:01:00.0 nvidia boot_vga\npci 0000:01:00.1  \npci nonsense x\n\n"))
	require.NoError(t, err)
	assert.Equal(t, "6.8.12-4-pve", p.kernel)
	assert.Equal(t, []string{"quiet", "iommu=pt"}, p.cmdline)
	assert.Equal(t, map[string]string{"vfio": "/etc/modules"}, p.modules)
	require.Len(t, p.devices, 2)
	assert.Equal(t, "nvidia", p.devices[0].driver)
	assert.True(t, p.devices[0].console)
	assert.Empty(t, p.devices[1].driver)
	assert.True(t, p.older(6, 9))
	assert.False(t, p.older(6, 8))
	assert.False(t, p.older(5, 99))

	_, err = parseProbe([]byte("This account is not available.\n"))
	assert.ErrorContains(t, err, "gives an unexpected answer")
}

func FuzzParseProbe(f *testing.F) {
	f.Add("kernel 6.17.4-1-pve\ncmdline quiet\nmodule vfio /etc/modules\npci 0000:01:00.0 vfio-pci boot_vga\n")
	f.Add("kernel \npci\npci 0000:01:00.0\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parseProbe([]byte(text))
		if err == nil && !strings.Contains(text, p.kernel) {
			t.Errorf("a kernel %q that nobody named", p.kernel)
		}
	})
}

func FuzzWithin(f *testing.F) {
	f.Add("2 4 100-200", 150)
	f.Add("2-4094", 1)
	f.Add("a-b,-,4-", 4)
	f.Fuzz(func(t *testing.T, list string, vlan int) {
		if vlanListContains(list, vlan) && !vlanListContains(list+" 1", vlan) {
			t.Errorf("%q has %d, and with more in it not", list, vlan)
		}
	})
}

func TestWithin(t *testing.T) {
	assert.True(t, vlanListContains("2 4 100-200", 4))
	assert.True(t, vlanListContains("2,4;100-200", 200))
	assert.False(t, vlanListContains("2 4 100-200", 99))
	assert.False(t, vlanListContains("", 1))
}

func TestBridges(t *testing.T) {
	p := plug{nic: proxmox.NIC{Bridge: "vmbr0", MTU: 9000, VLAN: 5}, vms: []string{"a", "b", "c", "d", "e"}}
	bridge := proxmox.Bridge{Name: "vmbr0", Type: "bridge", Active: true, MTU: 1500}
	found := p.checkBridge("pve1", bridge, nil)
	require.Len(t, found, 2)
	assert.Contains(t, found[0].Evidence, "has no port, so VLAN 5 (a, b, c and 2 more) leads nowhere")
	assert.Contains(t, found[1].Evidence, "the MTU is 9000 in the file, and that of bridge vmbr0 on pve1 is 1500")
	assert.Equal(t, Error, found[1].Verdict)

	bridge.MTU, bridge.Type = 9000, "OVSBridge"
	assert.Empty(t, p.checkBridge("pve1", bridge, nil))
	bridge.Active = false
	require.Len(t, p.checkBridge("pve1", bridge, nil), 1)
	assert.Equal(t, "ifup vmbr0", p.checkBridge("pve1", bridge, nil)[0].Command)
}

func TestAbout(t *testing.T) {
	for size, want := range map[int64]string{0: "0B", 512: "512B", 1 << 30: "1GiB", 3 << 29: "1.5GiB", 2<<40 - 1: "2TiB", 8400 << 30: "8.2TiB", 1<<40 - 1: "1TiB", 150<<30 + 5: "150GiB"} {
		assert.Equal(t, want, proxmox.Size(size).Approximate())
	}
}

func TestAReportSaysTheWorst(t *testing.T) {
	r := &Report{Findings: []Finding{{ID: "PX1", Verdict: OK}, {ID: "PX9", Verdict: Skipped}}}
	assert.Equal(t, OK, r.Worst())
	require.NoError(t, r.Err())
	r.Findings = append(r.Findings, Finding{ID: "clock", Verdict: Warning, Evidence: "it is late"})
	assert.Equal(t, Warning, r.Worst())
	require.NoError(t, r.Err())
	r.Findings = append(r.Findings, errorf("pve1", "do: `this`", "it is off"))
	assert.Equal(t, Error, r.Worst())
	var refused *RefusedError
	require.True(t, errors.As(r.Err(), &refused))
	assert.Equal(t, "it is off\n  do: this", refused.Error())
}
