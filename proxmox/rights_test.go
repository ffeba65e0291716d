package proxmox_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/proxmox"
)

func TestPermissionsThatReachBelow(t *testing.T) {
	p := proxmox.PermissionTree{
		"/":            {"Sys.Audit": false, "VM.Audit": true},
		"/vms":         {"VM.Audit": true, "VM.Clone": false},
		"/storage":     {"Datastore.Audit": false},
		"/storage/one": {},
	}
	for _, x := range []struct {
		where, privilege string
		here, below      bool
	}{
		{"/", "Sys.Audit", true, false}, // 0 is granted nevertheless
		{"/vms", "VM.Audit", true, true},
		{"/vms", "VM.Clone", true, false},
		{"/vms/100", "VM.Audit", true, true},
		{"/vms/100", "VM.Clone", false, false},
		{"/storage/two", "Datastore.Audit", false, false},
		{"/storage/two", "VM.Audit", true, true}, // what does not propagate replaces nothing below
		{"/storage/one", "VM.Audit", false, false},
		{"/nodes", "VM.Audit", false, false}, // Proxmox always answers for it
		{"/mapping/pci/x", "VM.Audit", true, true},
	} {
		assert.Equal(t, x.here, p.Has(x.where, x.privilege, false), "%+v", x)
		assert.Equal(t, x.below, p.Has(x.where, x.privilege, true), "%+v", x)
	}
	missing := p.Missing([]proxmox.Grant{
		{Path: "/vms", Privileges: []string{"VM.Audit", "VM.Clone"}, Propagate: true, Reason: "see"},
		{Path: "/", Privileges: []string{"Sys.Audit"}},
	})
	assert.Equal(t, []proxmox.Grant{{Path: "/vms", Privileges: []string{"VM.Clone"}, Propagate: true, Reason: "see"}}, missing)
	assert.Equal(t, "VM.Clone on /vms and what lies below", missing[0].String())

	modify := []proxmox.Grant{{Path: "/", Privileges: []string{"Sys.Audit", "Sys.Modify"}}}
	need := []proxmox.Grant{{Path: "/nodes/pve1", Privileges: []string{"Sys.AccessNetwork"}, Alternatives: modify}}
	assert.Len(t, p.Missing(need), 1, "half of what does instead is not enough")
	p["/"]["Sys.Modify"] = false
	assert.Empty(t, p.Missing(need))
}

func FuzzTree(f *testing.F) {
	f.Add(`{"/vms":{"VM.Audit":1,"VM.Clone":0},"/storage/a":{}}`)
	f.Add(`{"/":{"a":"1","b":true,"c":null}}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		var p proxmox.PermissionTree
		if json.Unmarshal([]byte(text), &p) != nil {
			return
		}
		for where, privileges := range p {
			for name, propagates := range privileges {
				assert.True(t, p.Has(where, name, false))
				assert.True(t, !propagates || p.Has(where, name, true))
			}
		}
		p.Has("no/slash", "VM.Audit", true) // ends
	})
}

func TestCommandsOfRoot(t *testing.T) {
	need := []proxmox.Grant{{Path: "/vms", Privileges: []string{"VM.Clone", "VM.Audit"}, Propagate: true}, {Path: "/", Privileges: []string{"Sys.Audit"}}, {Path: "/vms", Privileges: []string{"VM.Audit"}}}
	commands := proxmox.TokenCommands("root@pam", "root@pam!lab")
	for _, path := range proxmox.GrantPaths(need) {
		commands = append(commands, proxmox.GrantCommands("homelab-x", "root@pam!lab", need, path)...)
	}
	assert.Equal(t, []string{
		"pveum user token modify root@pam lab --privsep 1 2>/dev/null || pveum user token add root@pam lab --privsep 1",
		"pveum role add homelab-x-vms 2>/dev/null; pveum role modify homelab-x-vms --privs VM.Audit,VM.Clone",
		"pveum acl modify /vms --tokens 'root@pam!lab' --roles homelab-x-vms --propagate 1",
		"pveum role add homelab-x-root 2>/dev/null; pveum role modify homelab-x-root --privs Sys.Audit",
		"pveum acl modify / --tokens 'root@pam!lab' --roles homelab-x-root --propagate 0",
	}, commands)
}

func ExamplePermissionTree_Missing() {
	have := proxmox.PermissionTree{"/": {"VM.Audit": true}, "/storage/local": {"Datastore.Audit": false}}
	need := []proxmox.Grant{
		{Path: "/vms", Privileges: []string{"VM.Audit", "VM.Clone"}, Propagate: true, Reason: "clone machines"},
		{Path: "/storage/local", Privileges: []string{"Datastore.Audit"}, Reason: "see what is there"},
	}
	have["/vms"] = map[string]bool{"VM.Audit": true}
	for _, g := range have.Missing(need) {
		fmt.Printf("%s: %s\n", g, g.Reason)
	}
	// Output: VM.Clone on /vms and what lies below: clone machines
}
