package api

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/cps-gpu/homelab/internal/printable"
)

// grantHints holds the latest argument of [Client.SetGrantCommands].
type grantHints struct {
	atomic.Pointer[func(path string, privileges []string) []string]
}

// SetGrantCommands tells the client how to get the commands that grant one of the privileges on a path, none if
// it is not meant to have them. It affects only messages: the error of a refused request then has the
// commands, ready to paste.
func (c *Client) SetGrantCommands(commands func(path string, privileges []string) []string) {
	c.expects.Store(&commands)
}

// cure returns the commands that grant one of the privileges on a path. If the privileges were not
// expected to be needed, it says how to find the role that lacks them.
func (x *grantHints) cure(path string, privileges []string) string {
	if commands := x.Load(); commands != nil {
		if all := (*commands)(path, privileges); len(all) > 0 {
			return "run on a host as root:\n    " + strings.Join(all, "\n    ")
		}
	}
	if len(privileges) == 0 {
		return ""
	}
	return fmt.Sprintf("add it to its role on that path: pveum role modify ROLE --append 1 --privs %s"+
		"\n  (ROLE: see pveum acl list; a privilege-separated token needs it for itself and for its user)", printable.Word(privileges[0]))
}

// IncompleteListError returns the error for an incomplete list: Proxmox leaves out what the token may not see,
// without saying so.
func (c *Client) IncompleteListError(path, privilege, what string) error {
	return fmt.Errorf("proxmox: %s: Proxmox omits it from the list\n  %s", what,
		missingPrivilegeText(c.cfg.TokenID, path, []string{privilege}, false, c.expects.cure(path, []string{privilege})))
}

// lackedPrivileges returns the privileges that a refused request lacked. Proxmox usually names them. For the
// few requests whose refusals do not, the privileges are listed here (qemu-server,
// PVE/API2/Qemu.pm; pve-storage, PVE/API2/Storage/Status.pm).
func (e *Error) lackedPrivileges() (path string, privileges []string, anyOf, named bool) {
	if path, privileges, ok := denied(e.Message); ok && len(privileges) > 0 {
		return path, privileges, strings.Contains(e.Message, "|"), true
	}
	if e.Status != http.StatusForbidden || e.Method != http.MethodPost {
		return "", nil, false, false
	}
	part := strings.Split(strings.TrimPrefix(e.Path, "/"), "/") // nodes, pve1, storage, local, upload
	if len(part) < 3 || part[0] != "nodes" {
		return "", nil, false, false
	}
	switch last := part[len(part)-1]; {
	case part[2] == "qemu" && (last == "qemu" || last == "clone"):
		return "/vms", []string{"VM.Allocate"}, false, false
	case last == "upload" && len(part) == 5:
		return "/storage/" + part[3], []string{"Datastore.AllocateTemplate"}, false, false
	case last == "download-url":
		return "/nodes/" + part[1], []string{"Sys.AccessNetwork"}, false, false
	}
	return "", nil, false, false
}

// missingPrivilegeText says which privileges a token lacks, and how to grant them.
func missingPrivilegeText(token, path string, privileges []string, anyOf bool, cure string) string {
	which := strings.Join(privileges, " and ")
	if anyOf {
		which = "one of " + strings.Join(privileges, ", ")
	}
	return fmt.Sprintf("the token %s lacks %s on %s; %s", token, which, path, cure)
}
