package proxmox_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/proxmox/pci"
)

// cloneText is the description of a clone that was begun.
func cloneText(id int) string {
	return fmt.Sprintf("Unfinished: this VM %d is being made for %s.", id, owner)
}

// A clone that was not answered, or whose VMID is taken, is looked for before another is begun.
func TestAClone(t *testing.T) {
	const clone, path, look = "POST /nodes/pve1/qemu/100/clone", "/nodes/pve1/qemu/101", "GET /nodes/pve1/qemu/101/pending"
	upid := workerOf("qmclone", "100")
	taken, lost := says(500, "unable to create VM 101: config file already exists"), says(596, "lost")
	gone := says(500, strings.Replace(goneText, "100", "101", 1))
	half := func(more ...string) http.HandlerFunc {
		config := map[string]string{"name": "wk1", "description": cloneText(101), "digest": "d"}
		for i := 0; i < len(more); i += 2 {
			config[more[i]] = more[i+1]
		}
		return pending(config)
	}
	all := func(h ...http.HandlerFunc) []http.HandlerFunc { return h }
	for name, tt := range map[string]struct {
		clone, look []http.HandlerFunc
		spec        func(*proxmox.VMSpec)
		want        string
		begun       int
		with        string // of the last clone's parameters
		made        int
	}{
		"made":                    {clone: all(data(upid)), begun: 1, with: `"newid":101`, made: 101},
		"full":                    {clone: all(data(upid)), spec: func(s *proxmox.VMSpec) { s.Full, s.Storage = true, "fast" }, begun: 1, with: `"full":1,"name":"wk1","newid":101,"storage":"fast"`, made: 101},
		"to another storage":      {clone: all(data(upid)), spec: func(s *proxmox.VMSpec) { s.Storage = "fast" }, begun: 1, with: `"full":1`, made: 101},
		"to its own":              {clone: all(data(upid)), spec: func(s *proxmox.VMSpec) { s.Storage = "thin" }, begun: 1, with: `101}`, made: 101},
		"with its VMID":           {clone: all(data(upid)), spec: func(s *proxmox.VMSpec) { s.VMID = 101 }, begun: 1, with: `"newid":101`, made: 101},
		"lost, and made":          {clone: all(lost), look: all(half()), begun: 1, made: 101},
		"lost, and locked":        {clone: all(lost), look: all(half("lock", "clone"), half("lock", "clone"), half()), begun: 1, made: 101},
		"lost, without a name":    {clone: all(lost), look: all(half("name", "", "lock", "clone"), half("lock", "clone"), half()), begun: 1, made: 101},
		"lost, and another's":     {clone: all(lost, taken, data(upid)), look: all(half("name", "other")), begun: 3, with: `"newid":102`, made: 102},
		"lost, another's locked":  {clone: all(lost, taken, data(upid)), look: all(half("name", "other", "lock", "backup")), begun: 3, with: `"newid":102`, made: 102},
		"lost, another's notes":   {clone: all(lost, taken, data(upid)), look: all(half("description", "mine")), begun: 3, with: `"newid":102`, made: 102},
		"lost, then gone":         {clone: all(lost, data(upid)), look: all(half("lock", "clone"), gone), begun: 2, with: `"newid":101`, made: 101},
		"lost, and not made":      {clone: all(lost, data(upid)), look: all(gone), begun: 2, with: `"newid":101`, made: 101},
		"lost, and hidden":        {clone: all(lost), look: all(says(403, "hidden")), want: "hidden", begun: 1},
		"taken, by us":            {clone: all(taken), look: all(half()), begun: 1, made: 101},
		"taken, by another":       {clone: all(taken, data(upid)), look: all(half("description", "")), begun: 2, with: `"newid":102`, made: 102},
		"taken, and hidden":       {clone: all(taken, data(upid)), look: all(says(403, "hidden")), begun: 2, with: `"newid":102`, made: 102},
		"taken, where it must be": {clone: all(taken), look: all(gone), spec: func(s *proxmox.VMSpec) { s.VMID = 101 }, want: "clone wk1 from tmpl (VM 100 on pve1): ", begun: 1},
		"always taken":            {clone: all(taken), look: all(gone), want: "clone wk1: every VMID that Proxmox offered was taken", begun: 6},
		"refused":                 {clone: all(says(403, "no")), want: "clone wk1 from tmpl (VM 100 on pve1): ", begun: 1},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl := marked(100, "name", "tmpl", "template", "1", "scsi0", "thin:base-100-disk-0,size=8G", "serial0", "socket", "agent", "1", "balloon", "0", "cpu", "host", "cores", "1")
			more := map[string][]http.HandlerFunc{
				clone: tt.clone, look: tt.look, "GET /nodes/pve1/tasks": {func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Query().Get("source") == "active" {
						data([]any{})(w, r)
						return
					}
					taskEnd(upid, "OK")(w, r)
				}},
				"GET /cluster/nextid":             {data("101")},
				"PUT " + path + "/config":         {data(nil)},
				"POST " + path + "/config":        {data(workerOf("qmconfig", "101"))},
				"PUT /nodes/pve1/qemu/102/config": {data(nil)},
			}
			off(t, vmsOf(map[int]map[string]string{100: tmpl}, more), func(t *testing.T, c *proxmox.Client, w *wireless) {
				spec := proxmox.VMSpec{Name: "wk1", Host: "pve1", Owner: owner, Template: "tmpl", Cores: 2, Memory: 2 * proxmox.GiB}
				if tt.spec != nil {
					tt.spec(&spec)
				}
				var said []string
				ctx := converge.WithProgress(t.Context(), func(u converge.ProgressUpdate) { said = append(said, u.String()) })
				err := c.VMs.Shape(ctx, spec, nil)
				assert.Equal(t, tt.begun, w.asked(clone), "%v %v", w.changes(), err)
				if tt.want != "" {
					require.ErrorContains(t, err, tt.want)
					return
				}
				// What was found is read after its change as well, and is what these answers say.
				clones := slices.DeleteFunc(w.changes(), func(call string) bool { return !strings.HasPrefix(call, clone) })
				assert.Contains(t, clones[len(clones)-1], tt.with)
				assert.Equal(t, strings.Contains(tt.with, `"full"`), strings.Contains(clones[len(clones)-1], `"full"`))
				assert.NotContains(t, clones[len(clones)-1], "target")
				assert.Positive(t, w.asked(fmt.Sprintf("PUT /nodes/pve1/qemu/%d/config", tt.made)), "%v %v", w.changes(), err)
			})
		})
	}
}

// Onto another host a clone goes by the template's.
func TestACloneOnAnotherHost(t *testing.T) {
	upid := workerOf("qmclone", "100")
	tmpl := marked(100, "name", "tmpl", "template", "1", "scsi0", "nfs:base-100-disk-0,size=8G", "serial0", "socket")
	off(t, vmsOf(map[int]map[string]string{100: tmpl}, map[string][]http.HandlerFunc{
		"POST /nodes/pve1/qemu/100/clone": {data(upid)}, "GET /cluster/nextid": {data("101")}, "GET /nodes/pve2/tasks": {data([]any{})},
		"GET /nodes/pve1/tasks": {data([]any{}), taskEnd(upid, "OK")}, "PUT /nodes/pve2/qemu/101/config": {data(nil)},
	}), func(t *testing.T, c *proxmox.Client, w *wireless) {
		require.NoError(t, c.VMs.Shape(t.Context(), proxmox.VMSpec{Name: "wk1", Host: "pve2", Owner: owner, Template: "tmpl", Cores: 2, Memory: 2 * proxmox.GiB}, nil))
		assert.Contains(t, w.changes()[0], `"target":"pve2"`)
	})
}

// What is in a template's place is said.
func TestNoTemplate(t *testing.T) {
	vms := map[int]map[string]string{100: marked(100, "name", "plain"), 101: {"name": "theirs", "template": "1"}, 102: {"name": "other"}}
	for name, tt := range map[string]struct {
		vms  map[int]map[string]string
		id   int
		want string
	}{
		"plain":  {vms, 0, "plain (VM 100 on pve1) is not a template: VMs are cloned from templates only"},
		"theirs": {vms, 0, "theirs (VM 101 on pve1) is not a template of homelab-a100: it does not carry the tag homelab-a100"},
		"none":   {vms, 0, "no template of homelab-a100 is called none: not found"},
		"blind":  {nil, 0, "the token sees no VMs: it may lack VM.Audit on /vms"},
		"by id":  {vms, 102, "other (VM 102 on pve1) is not a template: VMs are cloned from templates only"},
		"no id":  {vms, 103, "VM 103 does not exist, or the token may not see it"},
	} {
		off(t, vmsOf(tt.vms, nil), func(t *testing.T, c *proxmox.Client, w *wireless) {
			err := c.VMs.Shape(t.Context(), proxmox.VMSpec{Name: "wk1", Host: "pve1", Owner: owner, Template: name, TemplateID: tt.id, Cores: 1, Memory: proxmox.GiB}, nil)
			require.ErrorContains(t, err, tt.want)
			assert.Equal(t, name == "blind", strings.Contains(err.Error(), "sees no VMs"))
			assert.Empty(t, w.changes())
		})
	}
}

// A VM that another process has begun to make and that has no name yet is waited for:
// it may be the one that is asked for.
func TestAVMWithoutANameYet(t *testing.T) {
	const look = "GET /nodes/pve1/qemu/100/pending"
	nameless := map[string]string{"name": "VM 100", "lock": "clone"}
	ours := marked(100, "name", "wk1", "serial0", "socket", "agent", "1", "balloon", "0", "cpu", "host", "digest", "d")
	for name, tt := range map[string]struct {
		first map[string]string
		looks []http.HandlerFunc
		want  string
		waits bool
	}{
		"becomes ours":      {nameless, []http.HandlerFunc{pending(nameless), pending(nameless), pending(ours)}, "", true},
		"becomes ours, too": {map[string]string{"name": "", "lock": "create"}, []http.HandlerFunc{pending(nameless), pending(ours)}, "", true},
		"has another lock":  {map[string]string{"name": "VM 100", "lock": "backup"}, []http.HandlerFunc{pending(nameless)}, "no template of", false},
		"has a name":        {map[string]string{"name": "VM 101", "lock": "clone"}, []http.HandlerFunc{pending(nameless)}, "no template of", false},
		"cannot be seen":    {nameless, []http.HandlerFunc{pending(nameless), says(403, "hidden")}, "hidden", true},
	} {
		t.Run(name, func(t *testing.T) {
			answers := vmsOf(map[int]map[string]string{100: tt.first}, map[string][]http.HandlerFunc{look: tt.looks})
			later := vmsOf(map[int]map[string]string{100: ours}, nil)
			for _, list := range []string{"GET /cluster/resources", "GET /nodes/pve1/qemu"} {
				answers[list] = append(answers[list], later[list]...)
			}
			off(t, answers, func(t *testing.T, c *proxmox.Client, w *wireless) {
				err := c.VMs.Shape(t.Context(), proxmox.VMSpec{Name: "wk1", Host: "pve1", Owner: owner, Template: "tmpl", Cores: 1, Memory: 2 * proxmox.GiB}, nil)
				if tt.want == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tt.want)
				}
				assert.Empty(t, w.changes())
				assert.Equal(t, tt.waits && tt.want == "", w.asked("GET /cluster/resources") > 1)
			})
		})
	}
}

// What is left of a mapping's words goes as well.
func TestAMappingLosesItsDescription(t *testing.T) {
	const line = "node=pve1,path=0000:41:00,id=10de:20f1"
	device := pci.MappedDevice{Host: "pve1", Address: must(proxmox.ParsePCIAddress("41:00")), ID: "10de:20f1", IOMMUGroup: -1}
	for have, want := range map[string]string{
		"d": `PUT /cluster/mapping/pci/gpu {"delete":"description","map":["` + line + `"]}`,
		"":  `PUT /cluster/mapping/pci/gpu {"map":["` + line + `"]}`,
	} {
		off(t, map[string][]http.HandlerFunc{
			"GET /cluster/mapping/pci":     {data([]any{entry{"id": "gpu", "description": have, "map": []string{line + ",subsystem-id=1:2"}}}), data([]any{entry{"id": "gpu", "map": []string{line}}})},
			"PUT /cluster/mapping/pci/gpu": {data(nil)},
		}, func(t *testing.T, c *proxmox.Client, w *wireless) {
			require.NoError(t, c.PCI.EnsureMapping(t.Context(), pci.Mapping{ID: "gpu", Devices: []pci.MappedDevice{device}}))
			assert.Equal(t, []string{want}, w.changes())
		})
	}
}

// Only newer releases know how to overrule a shutdown that is under way.
func TestStopOverrulesAShutdown(t *testing.T) {
	for version, want := range map[string]string{"9.0.3": `{"overrule-shutdown":1}`, "10.1": `{"overrule-shutdown":1}`, "8.4.1": "{}"} {
		upid := workerOf("qmstop", "100")
		off(t, map[string][]http.HandlerFunc{
			"GET /version": {data(entry{"version": version})}, "POST /nodes/pve1/qemu/100/status/stop": {data(upid)}, "GET /nodes/pve1/tasks": {taskEnd(upid, "OK")},
		}, func(t *testing.T, c *proxmox.Client, w *wireless) {
			require.NoError(t, c.VMs.Stop(t.Context(), &proxmox.VM{Host: "pve1", VMID: 100}))
			assert.Equal(t, []string{"POST /nodes/pve1/qemu/100/status/stop " + want}, w.changes())
		})
	}
}
