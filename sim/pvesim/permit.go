package pvesim

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// permit holds a request against what the schema says about who may make it.
func (s *state) permit(c *call) error {
	perms := c.spec.Permissions
	if (c.who.token() || c.withToken) && c.spec.NoToken {
		return fail(http.StatusForbidden, fmt.Sprintf("Permission check failed (URI '%s' not available with API token, need proper ticket.\n)", c.path))
	}
	if c.who.root() {
		return nil
	}
	if user, ok := perms["user"].(string); ok && (user == "all" || user == "world") {
		return nil
	}
	if check, ok := perms["check"].([]any); ok {
		return s.permitted(c, check)
	}
	if len(perms) > 0 { // described in prose, checked in code
		return nil
	}
	return fail(http.StatusForbidden, "Permission check failed (user != root@pam)")
}

// permitted evaluates ["perm", path, [privileges], options…], ["and", …] and ["or", …].
func (s *state) permitted(c *call, check []any) error {
	op, _ := check[0].(string)
	switch op {
	case "and", "or":
		var err error
		for _, sub := range check[1:] {
			err = s.permitted(c, sub.([]any))
			if of := sub.([]any); op == "or" && err != nil && (of[0] == "and" || of[0] == "userid-param" && soundUser(c.param("userid")) != nil) {
				return err // these die wherever they stand
			}
			if (err == nil) == (op == "or") {
				return err
			}
		}
		if op == "or" && err != nil {
			return bareRefusal()
		}
		return err
	case "perm":
		return s.permittedOn(c, check)
	}
	return s.permittedUser(c, check)
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

func (s *state) permittedOn(c *call, check []any) error {
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
	if needed != "" && !c.p.has(needed) {
		return bareRefusal()
	}
	where := normalPath(fill(template, c.p))
	privs := s.translate(check[2].([]any))
	if where == "" { // nobody has rights on that
		return refuse("", privs[0])
	}
	if anyOf {
		return s.need(c.who, where, privs...)
	}
	return s.needAll(c.who, where, privs)
}

// translate turns the privileges of Proxmox VE 9 into those of the version we are.
func (s *state) translate(in []any) []string {
	var out []string
	for _, p := range in {
		name, _ := p.(string)
		if strings.HasPrefix(s.version, "8.") && strings.HasPrefix(name, "VM.GuestAgent.") {
			name = "VM.Monitor"
		}
		if name != "VM.Monitor" || !slices.Contains(out, name) { // several of 9 were one in 8
			out = append(out, name)
		}
	}
	return out
}
