package proxmox

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/proxmox/internal/wire"
)

// Permissions returns what the client's own token may do. It makes one request, and one more
// for each of paths that is missing from Proxmox's answer: that list leaves out a deeper entry
// that removes everything (NoAccess).
func (c *Client) Permissions(ctx context.Context, paths ...string) (PermissionTree, error) {
	all := PermissionTree{}
	if err := c.Get(ctx, "/access/permissions", nil, &all); err != nil {
		return nil, err
	}
	for _, p := range paths {
		if all.isExact(p) {
			continue
		}
		one := PermissionTree{}
		if err := c.Get(ctx, "/access/permissions", url.Values{"path": {p}}, &one); err != nil {
			return nil, err
		}
		all[p] = one[p]
	}
	return all, nil
}

// Pools returns the names of the resource pools that the token has Pool.Audit on.
func (c *Client) Pools(ctx context.Context) ([]string, error) {
	var all []struct {
		ID string `json:"poolid"`
	}
	err := c.Get(ctx, "/pools", nil, &all)
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = p.ID
	}
	return out, err
}

// TagAccess asks which tags the token may set. audits says whether the token has Sys.Audit on /,
// without which Proxmox does not show the datacenter's options.
func (c *Client) TagAccess(ctx context.Context, audits bool) (TagAccess, error) {
	var options struct {
		Access struct {
			Allow string   `json:"user-allow"`
			List  []string `json:"user-allow-list"`
		} `json:"user-tag-access"`
		Registered []string `json:"registered-tags"`
		Allowed    []string `json:"allowed-tags"`
	}
	if err := c.Get(ctx, "/cluster/options", nil, &options); err != nil {
		return TagAccess{}, err
	}
	a := TagAccess{Allow: options.Access.Allow, List: options.Access.List, Registered: options.Registered, Allowed: options.Allowed}
	if a.Allow == "" && audits {
		a.Allow = "free"
	}
	return a, nil
}

// TokenInfo is what Proxmox knows about a token, except its secret.
type TokenInfo struct {
	Expires           time.Time // zero: never
	PrivilegeSeparate bool      // it has only what both it and its user are granted
}

// Token returns what Proxmox knows about the token in use. A token may read its own entry only with
// User.Modify on /access/groups.
func (c *Client) Token(ctx context.Context) (TokenInfo, error) {
	user, name, _ := strings.Cut(c.TokenID(), "!")
	var t struct {
		Expire  wire.Int   `json:"expire"`
		PrivSep *wire.Bool `json:"privsep"`
	}
	if err := c.Get(ctx, "/access/users/"+url.PathEscape(user)+"/token/"+url.PathEscape(name), nil, &t); err != nil {
		return TokenInfo{}, err
	}
	info := TokenInfo{PrivilegeSeparate: t.PrivSep == nil || bool(*t.PrivSep)}
	if t.Expire > 0 {
		info.Expires = time.Unix(int64(t.Expire), 0)
	}
	return info, nil
}
