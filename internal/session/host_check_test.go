package session

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/examples"
	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// machines are those of the example, without a platform.
func machines() string { return string(examples.WithoutPlatform(examples.EightA100)) }

func TestHostCheckExits(t *testing.T) {
	for _, c := range []struct {
		name    string
		arrange func(*site)
		yaml    func(string) string
		code    int
		says    []string
	}{
		{name: "healthy", code: 0, says: []string{"checks, nothing wrong"}},
		{name: "a clock", code: 1, arrange: func(w *site) { w.model(func(m *pvesim.Model) { m.Hosts[0].ClockOffset = -3 * time.Minute }) },
			says: []string{"! clock  pve1\n", "    the clock of pve1 is 3m0s behind", "      systemctl restart chrony\n", "0 errors, 1 warning"}},
		{name: "a storage", code: 2, yaml: func(s string) string { return strings.ReplaceAll(s, "storage: vmdata", "storage: fast") },
			says: []string{"✗ storage  fast\n", "1 error, 0 warnings"}},
		{name: "the API", code: 2, arrange: func(w *site) {
			w.sim.Fail(pvesim.Rule{Path: `/nodes`, Times: -1, Status: 595, Message: "Connection refused"})
		}},
		{name: "no such host in the file", code: invalid, yaml: func(s string) string { return s }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inSite(t, func(t *testing.T, w *site) {
				if c.arrange != nil {
					c.arrange(w)
				}
				yaml, f := machines(), HostFlags{}
				if c.yaml != nil {
					yaml = c.yaml(yaml)
				}
				if c.code == invalid {
					f.Host = "pve9"
				}
				err := w.do(yaml, Options{}, with(f, hostCheck))
				assert.Equal(t, c.code, code(err), "%v\n%s", err, w.data.String())
				for _, want := range c.says {
					assert.Contains(t, w.data.String(), want)
				}
				if c.code == 0 {
					assert.NotContains(t, w.data.String(), "✗")
					assert.Regexp(t, `(?m)^pve1: \d+ checks, nothing wrong, \d not checked$`, w.data.String())
				}
				for _, r := range w.sim.Requests() {
					assert.False(t, r.Mutating, r.Path)
				}
			})
		})
	}
}

func TestHostCheckForPrograms(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		w.sim.Revoke("VM.Clone")
		err := w.do(machines(), Options{JSON: true}, with(HostFlags{}, hostCheck))
		assert.Equal(t, 2, code(err))
		verdicts := map[string]string{}
		for _, o := range objects(t, w.data.Bytes()) {
			id, _ := o["id"].(string)
			verdicts[id], _ = o["verdict"].(string)
			assert.NotEmpty(t, o["title"])
			if id == "PX1" {
				assert.Contains(t, o["evidence"], "VM.Clone on /vms")
				assert.Contains(t, o["command"], "pveum role")
			}
		}
		assert.Equal(t, "error", verdicts["PX1"])
		assert.Equal(t, "ok", verdicts["PX3"])
		assert.Equal(t, "skipped", verdicts["PX9"], "nobody said how to log in")
		_, token := w.sim.Token()
		assert.NotContains(t, w.everything.String(), token)
	})
}

// TestHostCheckAsksTheHostToo has a way to log in.
func TestHostCheckAsksTheHostToo(t *testing.T) {
	var asked []string
	look := func(s *Session, ctx context.Context) error {
		report, err := s.Cluster.HostCheck(ctx, func(_ context.Context, host string) (remote.Runner, error) {
			asked = append(asked, host)
			return remote.RunnerFunc(func(_ context.Context, cmd remote.Cmd) error {
				_, err := io.WriteString(cmd.Stdout, "kernel 6.17.4-1-pve\ncmdline quiet\npci 0000:25:00.0 nvidia \n")
				return err
			}), nil
		})
		require.NoError(t, err)
		return printCheck(s, report)
	}
	inSite(t, func(t *testing.T, w *site) {
		require.NoError(t, w.do(machines(), Options{}, look))
		assert.Equal(t, []string{"pve1"}, asked)
		assert.Contains(t, w.data.String(), "✗ PX9  0000:25:00.0\n    0000:25:00.0 on pve1 is held by the host's driver nvidia\n")
		assert.NotContains(t, w.data.String(), "not checked: PX9")
	})
}

// TestUpRefusesBeforeAnythingChanges has everything wrong at once.
func TestUpRefusesBeforeAnythingChanges(t *testing.T) {
	inSite(t, func(t *testing.T, w *site) {
		w.sim.Revoke("VM.Clone")
		w.sim.AddVM(pvesim.VM{ID: 300, Node: "pve1", Name: "cp1", Config: map[string]string{"cores": "1", "memory": "512"}})
		w.sim.AddVM(pvesim.VM{ID: 301, Node: "pve1", Name: "hoard", Config: map[string]string{"cores": "1", "memory": "512", "hostpci0": "0000:01:00", "onboot": "1"}})
		err := w.do(string(examples.WithoutPlatform(examples.EightA100)), Options{}, with(UpFlags{}, Up))
		require.Equal(t, 1, code(err))
		for _, want := range []string{"lacks VM.Clone on /vms", "VM 300 on pve1 is called cp1", "VM 301 (hoard)"} {
			assert.Contains(t, w.talk.String(), want, "all that is wrong is told at once")
		}
		for _, r := range w.sim.Requests() {
			assert.False(t, r.Mutating, r.Method+" "+r.Path)
		}
	})
}

// model recreates the site from a changed model.
func (w *site) model(change func(*pvesim.Model)) {
	m := pvesim.EightA100()
	change(&m)
	w.sim.Close()
	w.sim = pvesim.New(m, pvesim.Options{Kubernetes: w.kube})
}
