package record

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// Read makes a model of the hosts behind an endpoint. missing lists what it could not read,
// because a privilege is missing or a node is offline, with the server's messages.
func Read(ctx context.Context, o Options) (m pvesim.Model, missing []string, err error) {
	r := &reader{o: o}
	var version entry
	if err := r.get(ctx, "/version", nil, &version); err != nil {
		return m, nil, fmt.Errorf("record: %w", err)
	}
	m.Version = version.text("version")
	var nodes []entry
	if err := r.get(ctx, "/nodes", nil, &nodes); err != nil {
		return m, nil, fmt.Errorf("record: %w", err)
	}
	slices.SortFunc(nodes, func(a, b entry) int { return strings.Compare(a.text("node"), b.text("node")) })
	m.VMs = r.machines(ctx)
	r.storages = r.rows(ctx, "/storage", "storage", nil)
	for _, n := range nodes {
		m.Hosts = append(m.Hosts, r.host(ctx, n))
	}
	r.datacenter(ctx, &m)
	r.access(ctx, &m)
	if err := ctx.Err(); err != nil {
		return m, nil, fmt.Errorf("record: %w", err)
	}
	if err := r.balance(ctx, &m); err != nil {
		return m, nil, fmt.Errorf("record: %w", err)
	}
	if o.Anonymous {
		anonymize(&m)
	}
	return m, r.missing, nil
}

// datacenter is what all hosts share.
func (r *reader) datacenter(ctx context.Context, m *pvesim.Model) {
	var options entry
	if r.optional(ctx, "/cluster/options", nil, &options) {
		next := options.object("next-id")
		if next == nil {
			next = properties(options.text("next-id"))
		}
		m.NextID = pvesim.IDRange{Lower: int(next.number("lower")), Upper: int(next.number("upper"))}
	}
	for _, e := range r.rows(ctx, "/cluster/mapping/pci", "id", nil) {
		m.Mappings = append(m.Mappings, pvesim.PCIMapping{ID: e.text("id"), Description: r.description(e, "description"),
			MDev: e.is("mdev"), LiveMigration: e.is("live-migration-capable"), Map: mapEntries(e)})
	}
	for _, e := range r.rows(ctx, "/pools", "poolid", nil) {
		m.Pools = append(m.Pools, pvesim.Pool{ID: e.text("poolid"), Comment: r.description(e, "comment")})
	}
}

// mapEntries are the devices of a mapping, which have commas in them.
func mapEntries(e entry) []string {
	items, ok := e["map"].([]any)
	if !ok {
		return []string{e.text("map")}
	}
	var out []string
	for _, item := range items {
		out = append(out, fmt.Sprint(item))
	}
	return out
}

// description is a text for people, where it is asked for.
func (r *reader) description(e entry, key string) string {
	if !r.o.Descriptions {
		return ""
	}
	return e.text(key)
}

// properties reads a property string.
func properties(text string) entry {
	out := entry{}
	for part := range strings.SplitSeq(text, ",") {
		if k, v, ok := strings.Cut(part, "="); ok {
			out[k] = v
		}
	}
	return out
}

// access reads the permissions. Tokens have no secrets.
func (r *reader) access(ctx context.Context, m *pvesim.Model) {
	for _, e := range r.rows(ctx, "/access/roles", "roleid", nil) {
		if !e.is("special") {
			m.Roles = append(m.Roles, pvesim.Role{ID: e.text("roleid"), Privs: slices.Sorted(slices.Values(e.list("privs")))})
		}
	}
	for _, e := range r.rows(ctx, "/access/users", "userid", url.Values{"full": {"1"}}) {
		id := e.text("userid")
		enabled := e["enable"] == nil || e.is("enable")
		if id != "root@pam" {
			m.Users = append(m.Users, pvesim.User{ID: id, Comment: r.description(e, "comment"), Disabled: !enabled, Expire: e.number("expire")})
		}
		for _, t := range e.objects("tokens") {
			m.Tokens = append(m.Tokens, pvesim.Token{ID: id + "!" + t.text("tokenid"), PrivSep: t.is("privsep"),
				Comment: r.description(t, "comment"), Expire: t.number("expire")})
		}
	}
	for _, e := range r.rows(ctx, "/access/groups", "groupid", nil) {
		m.Groups = append(m.Groups, pvesim.Group{ID: e.text("groupid"), Comment: r.description(e, "comment"), Users: e.list("users")})
	}
	for _, e := range r.rows(ctx, "/access/acl", "path", nil) {
		who := e.text("ugid")
		if e.text("type") == "group" {
			who = "@" + who
		}
		m.ACLs = append(m.ACLs, pvesim.ACL{Path: e.text("path"), Who: who, Role: e.text("roleid"), NoPropagate: e["propagate"] != nil && !e.is("propagate")})
	}
	slices.SortStableFunc(m.ACLs, func(a, b pvesim.ACL) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Who, b.Who), strings.Compare(a.Role, b.Role))
	})
}
