package session

import (
	"cmp"
	"context"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/hostprep"
	"github.com/cps-gpu/homelab/proxmox"
)

// newestPVE is the version of Proxmox VE that is assumed if the host cannot be asked.
const newestPVE = "9"

// askTime is the time limit for the host's answer, which is optional.
const askTime = 5 * time.Second

var pveVersion = regexp.MustCompile(`^(8|9)(\.\d+){0,2}$`)

// HostRole prints the privileges that the file's cluster needs on its hosts, and the commands
// that grant them. It changes nothing, and needs neither the host nor a token: if they are
// available, it says what the token still lacks.
func HostRole(ctx context.Context, o Options, f HostRoleFlags) error {
	if f.PVE != "" && !pveVersion.MatchString(f.PVE) {
		return exitErrorf(invalid, "-pve=%s: write the version of Proxmox VE, 8.4 or 9", f.PVE)
	}
	s, err := Load(o)
	if err != nil {
		return err
	}
	defer s.Close()
	return hostRole(s, ctx, f)
}

// HostRole is the command in a session.
func hostRole(s *Session, ctx context.Context, f HostRoleFlags) error {
	if !s.Spec.HasProxmox() {
		return exitError(invalid, cluster.ErrNoProxmox)
	}
	id := cmp.Or(s.Spec.Proxmox.TokenID, "homelab@pve!"+s.Spec.Name)
	v := proxmox.Version{Version: f.PVE}
	var err error
	if f.PVE == "" {
		if v, err = observeRole(s, ctx, &id); err != nil {
			return err
		}
	}
	if s.JSON {
		return console.Objects(s.Console, rolesFor(s, v, id))
	}
	_, err = io.WriteString(s.Data, hostprep.RoleScript(s.Spec, v, id))
	return err
}

// observeRole asks the host for its version, and for what the token lacks.
func observeRole(s *Session, ctx context.Context, id *string) (proxmox.Version, error) {
	client, err := connect(s, ctx)
	if ctx.Err() != nil {
		return proxmox.Version{}, ctx.Err()
	}
	if err != nil {
		why, _, _ := strings.Cut(err.Error(), "\n")
		s.Printf("This is for Proxmox VE %s; the host's version is unknown (%s). For another: -pve=8.4", newestPVE, why)
		return proxmox.Version{Version: newestPVE}, nil
	}
	v := client.Version()
	*id = client.TokenID()
	need := slices.Concat(hostprep.Grants(s.Spec, v), hostprep.ReadGrants(s.Spec))
	have, err := client.Permissions(ctx, proxmox.GrantPaths(need)...)
	if err != nil {
		return v, err
	}
	lacking := proxmox.Roles(hostprep.RolePrefix(s.Spec), have.Missing(need))
	for _, r := range lacking {
		s.Printf("%s lacks %s", *id, r)
	}
	if len(lacking) == 0 {
		s.Printf("%s has all of this on %s (Proxmox VE %s); nothing to do.", *id, client.Endpoint(), v.Version)
	}
	return v, nil
}

// connect connects to the host with the token, if both are available.
func connect(s *Session, ctx context.Context) (*proxmox.Client, error) {
	if !s.Spec.IsLab() {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		return s.dial(ctx)
	}
	var lab cluster.Backend
	err := s.openLab(ctx, &lab)
	return lab.Proxmox, err
}

// role is one role for JSON output.
type role struct {
	Name       string   `json:"role"`
	Path       string   `json:"path"`
	Propagate  bool     `json:"propagate"`
	Privileges []string `json:"privileges"`
	Why        []string `json:"why"`
	Commands   []string `json:"commands"`
}

func rolesFor(s *Session, v proxmox.Version, id string) []role {
	out := rolesOf(hostprep.RolePrefix(s.Spec), id, slices.Concat(hostprep.Grants(s.Spec, v), hostprep.ReadGrants(s.Spec)))
	if c := s.Spec.Platform.Storage.Proxmox; c != nil {
		out = append(out, rolesOf(hostprep.ClaimRolePrefix(s.Spec), c.TokenID, hostprep.ClaimGrants(s.Spec))...)
	}
	return out
}

func rolesOf(prefix, id string, need []proxmox.Grant) []role {
	var out []role
	for _, r := range proxmox.Roles(prefix, need) {
		out = append(out, role{r.Name, r.Path, r.Propagate, r.Privileges, r.Reasons, proxmox.GrantCommands(prefix, id, need, r.Path)})
	}
	return out
}
