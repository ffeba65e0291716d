package spec

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Hub is JupyterHub. It may also be written as its hostname alone.
type Hub struct {
	Hostname  string         `yaml:"hostname" short:"text" required:"true" doc:"Its hostname, e.g. hub.lab.example."`
	Version   string         `yaml:"version" doc:"Version of the chart. Default: the pinned one."`
	Namespace string         `yaml:"namespace" default:"jupyterhub" doc:"Default jupyterhub."`
	Database  HubDatabase    `yaml:"database" doc:"Where users and tokens are kept: sqlite or postgres."`
	Auth      HubAuth        `yaml:"auth" doc:"Who may log in."`
	Profiles  []HubProfile   `yaml:"profiles,named" doc:"What people can start, by name. Default: one without and, if a node has GPUs, one with a GPU."`
	Home      HubHome        `yaml:"home" doc:"Each user's own folder."`
	Shared    []HubShare     `yaml:"shared,named" doc:"Shares of storage.nfs that every notebook mounts, by name."`
	Scratch   *HubScratch    `yaml:"scratch" doc:"An ephemeral volume of each server. Default: none."`
	SHM       Size           `yaml:"shm" default:"8GiB" doc:"Size of /dev/shm. Default 8GiB."`
	Cull      HubCull        `yaml:"cull" doc:"When to stop idle servers; false for never."`
	PrePull   bool           `yaml:"prePull" doc:"Pull the profiles' images to the nodes beforehand."`
	Isolate   Switch         `yaml:"isolate" default:"true" doc:"Network policies around hub and notebooks. Default true."`
	Reach     []netip.Prefix `yaml:"reach" doc:"Private networks that notebooks may reach despite isolate, e.g. 10.0.0.0/24."`
	Quota     HubQuota       `yaml:"quota" doc:"Limits for all notebooks together. Default: no limit."`
}

// HubDatabase may also be written as its kind alone.
type HubDatabase struct {
	Kind  string    `yaml:"kind" short:"text" enum:"sqlite,postgres" doc:"Default sqlite, in a volume of its own."`
	Class string    `yaml:"class" doc:"Storage class of that volume. Default: the default one."`
	Size  Size      `yaml:"size" doc:"Size of that volume. Default 1GiB."`
	URL   SecretRef `yaml:"url" doc:"For postgres: reference to postgresql://user:password@host/name."`
}

// Kinds of HubAuth.
const (
	AuthDummy  = "dummy"
	AuthNative = "native"
	AuthOIDC   = "oidc"
	AuthLDAP   = "ldap"
	AuthGitHub = "github"
)

// HubAuth may also be written as its kind alone.
type HubAuth struct {
	Kind     string      `yaml:"kind" short:"text" enum:"dummy,native,oidc,ldap,github" doc:"How people log in. Default: the one with a key below."`
	AllowAll Switch      `yaml:"allowAll" doc:"Anyone who can log in may use the hub. Default true with dummy and native."`
	Users    []string    `yaml:"users" doc:"These may."`
	Admins   []string    `yaml:"admins" doc:"Users who administer the hub."`
	Dummy    *DummyAuth  `yaml:"dummy" doc:"One password for all users. For the lab."`
	Native   *NativeAuth `yaml:"native" doc:"Users and passwords in the hub's own database."`
	OIDC     *OIDCAuth   `yaml:"oidc" doc:"An OpenID Connect provider: Keycloak, Authentik, Dex and the like."`
	LDAP     *LDAPAuth   `yaml:"ldap" doc:"A directory."`
	GitHub   *GitHubAuth `yaml:"github" doc:"GitHub."`
}

// Groups reports whether the login provides users' groups.
func (a HubAuth) Groups() bool {
	return a.Kind == AuthOIDC && a.OIDC != nil && a.OIDC.GroupsClaim != ""
}

// Profile returns the profile of that name; nil: there is none.
func (h *Hub) Profile(name string) *HubProfile {
	i := slices.IndexFunc(h.Profiles, func(p HubProfile) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &h.Profiles[i]
}

// Share returns the share of that name; nil: there is none.
func (h *Hub) Share(name string) *HubShare {
	i := slices.IndexFunc(h.Shared, func(s HubShare) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &h.Shared[i]
}

// DummyAuth is one password for all users.
type DummyAuth struct {
	_        struct{}  `short:"switch"`
	Password SecretRef `yaml:"password" doc:"Reference to the common password. Default: generated and kept in the cluster."`
}

// NativeAuth has users and passwords in the hub's own database.
type NativeAuth struct {
	_          struct{} `short:"switch"`
	OpenSignup bool     `yaml:"openSignup" doc:"Anyone who signs up may log in at once. Default: an admin approves people first."`
}

// OIDCAuth is an OpenID Connect provider.
type OIDCAuth struct {
	Issuer        string    `yaml:"issuer" required:"true" doc:"URL of the provider, e.g. https://id.lab.example/realms/lab."`
	ClientID      string    `yaml:"clientID" required:"true" doc:"Name of the hub at the provider."`
	ClientSecret  SecretRef `yaml:"clientSecret" required:"true" doc:"Reference to its secret."`
	AuthorizeURL  string    `yaml:"authorizeURL" doc:"Default: what the issuer publishes."`
	TokenURL      string    `yaml:"tokenURL" doc:"Default: what the issuer publishes."`
	UserdataURL   string    `yaml:"userdataURL" doc:"Default: what the issuer publishes."`
	UsernameClaim string    `yaml:"usernameClaim" default:"preferred_username" doc:"Default preferred_username."`
	GroupsClaim   string    `yaml:"groupsClaim" doc:"Claim with the user's groups. Default: groups, if the file names groups."`
	AllowedGroups []string  `yaml:"allowedGroups" doc:"Members of these may log in."`
	AdminGroups   []string  `yaml:"adminGroups" doc:"Members of these administer the hub."`
	Scopes        []string  `yaml:"scopes" doc:"Default openid, profile and email."`
	Button        string    `yaml:"button" doc:"Text of the login button."`
	CA            string    `yaml:"ca" doc:"PEM file of the authority that signed the provider's certificate."`
}

// LDAPAuth is a directory.
type LDAPAuth struct {
	Server         string    `yaml:"server" required:"true" doc:"ldaps://host, or ldap://host."`
	BindDN         []string  `yaml:"bindDN" doc:"Templates of users' distinguished names, e.g. uid={username},ou=people,dc=lab,dc=example."`
	SearchBase     string    `yaml:"searchBase" doc:"Where users are."`
	Groups         []string  `yaml:"groups" doc:"Members of these may log in."`
	LookupDN       bool      `yaml:"lookupDN" doc:"Search for the user's distinguished name first, with searchUser."`
	SearchUser     string    `yaml:"searchUser" doc:"Distinguished name that searches."`
	SearchPassword SecretRef `yaml:"searchPassword" doc:"Reference to its password."`
	UserAttribute  string    `yaml:"userAttribute" default:"uid" doc:"Default uid."`
	CA             string    `yaml:"ca" doc:"PEM file of the authority that signed the directory's certificate."`
}

// GitHubAuth is GitHub.
type GitHubAuth struct {
	ClientID      string    `yaml:"clientID" required:"true" doc:"ID of the OAuth app."`
	ClientSecret  SecretRef `yaml:"clientSecret" required:"true" doc:"Reference to its secret."`
	Organizations []string  `yaml:"organizations" doc:"Members of these may log in: name, or name:team."`
}

// HubProfile is a choice in the hub's form.
type HubProfile struct {
	Name         string            `yaml:"-"`
	Title        string            `yaml:"title" doc:"What the list shows. Default: the name."`
	Description  string            `yaml:"description" doc:"Text below the title."`
	Image        string            `yaml:"image" doc:"Image with its tag. Default: a notebook of the Jupyter project, with PyTorch and CUDA for GPUs."`
	Default      bool              `yaml:"default" doc:"Preselect this profile. Default: the first."`
	CPU          CPU               `yaml:"cpu" doc:"Cores: a number, or guarantee and limit."`
	Memory       Memory            `yaml:"memory" doc:"A size, or guarantee and limit. Default guarantee 1GiB."`
	GPUs         int               `yaml:"gpus" doc:"Number of GPUs. Default 0."`
	GPUMemory    Size              `yaml:"gpuMemory" doc:"Memory of one GPU that is shared with MPS."`
	MIG          string            `yaml:"mig" doc:"MIG profile of the instance that it gets, e.g. 1g.5gb, where a node's GPUs are not all divided alike."`
	Pool         string            `yaml:"pool" doc:"The pool of nodes that it runs on. Default: any."`
	RuntimeClass string            `yaml:"runtimeClass" doc:"Default nvidia with GPUs."`
	Groups       []string          `yaml:"groups" doc:"Groups of users that see it. Default: all users."`
	Env          map[string]string `yaml:"env" doc:"Environment variables. No secrets."`
	DefaultURL   string            `yaml:"defaultURL" doc:"First page in the browser, e.g. /lab."`
	SHM          Size              `yaml:"shm" doc:"Size of /dev/shm. Default: the hub's."`
}

// CPU may also be written as a number, which is both.
type CPU struct {
	Guarantee Cores `yaml:"guarantee" short:"size" doc:"Reserved amount. Default: the limit."`
	Limit     Cores `yaml:"limit" short:"size" doc:"Maximum. Default: none."`
}

// Memory may also be written as a size, which is both.
type Memory struct {
	Guarantee Size `yaml:"guarantee" short:"size" doc:"Reserved amount. Default: the limit."`
	Limit     Size `yaml:"limit" short:"size" doc:"Above it, the kernel kills the process. Default: none."`
}

// HubHome may also be written as its size alone.
type HubHome struct {
	Size  Size   `yaml:"size" short:"size" doc:"Size of each user's volume. Default 20GiB."`
	Class string `yaml:"class" doc:"Its storage class. Default: the default one."`
	Claim string `yaml:"claim" doc:"One existing claim, with a folder for each user, instead of one volume each."`
	Path  string `yaml:"path" default:"/home/jovyan" doc:"Path in the notebook. Default /home/jovyan."`

	ClaimTemplate string `yaml:"claimTemplate" doc:"Name of users' claims, kubespawner's pvc_name_template, to adopt an existing hub. Default: the chart's."`
	SubPath       string `yaml:"subPath" doc:"Folder of the volume that is the home; may have {username}. Default: all of it."`
}

// HubShare may also be written as its path alone.
type HubShare struct {
	Name     string   `yaml:"-"` // of a share of Storage.NFS
	Path     string   `yaml:"path" short:"text" doc:"Path in the notebook. Default /shared/NAME."`
	ReadOnly Switch   `yaml:"readOnly" doc:"Default: the share's."`
	Groups   []string `yaml:"groups" doc:"Groups of users whose notebooks mount it. Default: all users."`
}

// HubScratch may also be written as its size alone.
type HubScratch struct {
	_     struct{} `short:"switch"`
	Size  Size     `yaml:"size" short:"size" default:"100GiB" doc:"Default 100GiB."`
	Class string   `yaml:"class" doc:"Storage class. Default: that of storage.scratch."`
	Path  string   `yaml:"path" default:"/scratch" doc:"Path in the notebook. Default /scratch."`
}

// HubCull may also be written as its idle time, or as false.
type HubCull struct {
	Enabled Switch        `yaml:"enabled" short:"bool" default:"true" doc:"Default true."`
	Idle    time.Duration `yaml:"idle" short:"text" default:"1h" doc:"Stop a server after this time without activity. Default 1h."`
	MaxAge  time.Duration `yaml:"maxAge" doc:"Stop a server after this time, even if it is busy. Default: never."`
	Every   time.Duration `yaml:"every" default:"5m" doc:"How often to check. Default 5m."`
	Exempt  []string      `yaml:"exempt" doc:"Users whose servers are never stopped."`
}

// HubQuota limits what all notebooks use together; zero means no limit.
type HubQuota struct {
	GPUs   int   `yaml:"gpus" doc:"GPUs of all notebooks."`
	CPU    Cores `yaml:"cpu" doc:"Guaranteed cores of all notebooks."`
	Memory Size  `yaml:"memory" doc:"Guaranteed memory of all notebooks."`
}

// Cores is an amount of CPU: 4, 0.5 or 500m.
type Cores float64

var coresSyntax = regexp.MustCompile(`^(?:[0-9]{1,4}(?:\.[0-9]{1,3})?|[0-9]{1,7}m)$`)

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Cores) UnmarshalText(b []byte) error {
	if !coresSyntax.Match(b) {
		return fmt.Errorf("%q is not an amount of CPU", b)
	}
	text, milli := strings.CutSuffix(string(b), "m")
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return err
	}
	if milli {
		v /= 1000
	}
	*c = Cores(v)
	return nil
}
