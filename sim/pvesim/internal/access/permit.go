package access

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// Permit checks a request against the schema's rules on who may make it.
func Permit(s *world.State, c *world.Call) error {
	perms := c.Spec.Permissions
	if (c.Who.Token() || c.WithToken) && c.Spec.NoToken {
		return answer.Fail(http.StatusForbidden, fmt.Sprintf("Permission check failed (URI '%s' not available with API token, need proper ticket.\n)", c.Path))
	}
	if c.Who.Root() {
		return nil
	}
	if user, ok := perms["user"].(string); ok && (user == "all" || user == "world") {
		return nil
	}
	if check, ok := perms["check"].([]any); ok {
		return checkPermission(s, c, check)
	}
	if len(perms) > 0 { // described in prose, checked in code
		return nil
	}
	return answer.Fail(http.StatusForbidden, "Permission check failed (user != root@pam)")
}

// checkPermission evaluates ["perm", path, [privileges], options…], ["and", …] and ["or", …].
func checkPermission(s *world.State, c *world.Call, check []any) error {
	op, _ := check[0].(string)
	switch op {
	case "and", "or":
		var err error
		for _, sub := range check[1:] {
			err = checkPermission(s, c, sub.([]any))
			if of := sub.([]any); op == "or" && err != nil && (of[0] == "and" || of[0] == "userid-param" && soundUser(c.Param("userid")) != nil) {
				return err // these die wherever they stand
			}
			if (err == nil) == (op == "or") {
				return err
			}
		}
		if op == "or" && err != nil {
			return BareRefusal()
		}
		return err
	case "perm":
		return permittedOn(s, c, check)
	}
	return permittedUser(s, c, check)
}

var (
	slashes   = regexp.MustCompile(`/+`)
	soundPath = regexp.MustCompile(`^[[:alnum:]._/-]+$`)
)

// normalPath is a path that rights are looked up on, and empty for what is none
// (PVE/AccessControl.pm, normalize_path).
func normalPath(p string) string {
	if p == "" {
		return ""
	}
	p = strings.TrimSuffix(slashes.ReplaceAllString(p, "/"), "/")
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	if !soundPath.MatchString(p) {
		return ""
	}
	return p
}

func permittedOn(s *world.State, c *world.Call, check []any) error {
	template, _ := check[1].(string)
	anyOf, needed := false, ""
	for i := 3; i+1 < len(check); i += 2 {
		switch check[i] {
		case "any":
			anyOf = true
		case "require_param":
			needed, _ = check[i+1].(string)
		}
	}
	if needed != "" && !c.Params.Has(needed) {
		return BareRefusal()
	}
	where := normalPath(request.Fill(template, c.Params))
	privs := translate(s, check[2].([]any))
	if where == "" { // nobody has rights on that
		return Refuse("", privs[0])
	}
	if anyOf {
		return Need(s, c.Who, where, privs...)
	}
	return NeedAll(s, c.Who, where, privs)
}

// translate turns the privileges of Proxmox VE 9 into those of the version we are.
func translate(s *world.State, in []any) []string {
	var out []string
	for _, p := range in {
		name, _ := p.(string)
		if strings.HasPrefix(s.Version, "8.") && strings.HasPrefix(name, "VM.GuestAgent.") {
			name = "VM.Monitor"
		}
		if name != "VM.Monitor" || !slices.Contains(out, name) { // several of 9 were one in 8
			out = append(out, name)
		}
	}
	return out
}
