package decode

import (
	"net/netip"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// Hub may also be written as its hostname alone.
type Hub struct {
	Hostname  string            `yaml:"hostname" short:"text" required:"true" doc:"Its hostname, e.g. hub.lab.example."`
	Version   string            `yaml:"version" doc:"Version of the chart. Default: the pinned one."`
	Namespace string            `yaml:"namespace" doc:"Default jupyterhub."`
	Database  HubDatabase       `yaml:"database" doc:"Where users and tokens are kept: sqlite or postgres."`
	Auth      *HubAuth          `yaml:"auth" doc:"Who may log in."`
	Profiles  named[HubProfile] `yaml:"profiles" doc:"What people can start, by name. Default: one without and, if a node has GPUs, one with a GPU."`
	Home      HubHome           `yaml:"home" doc:"Each user's own folder."`
	Shared    named[HubShare]   `yaml:"shared" doc:"Shares of storage.nfs that every notebook mounts, by name."`
	Scratch   *HubScratch       `yaml:"scratch" doc:"An ephemeral volume of each server. Default: none."`
	SHM       *spec.Size        `yaml:"shm" doc:"Size of /dev/shm. Default 8GiB."`
	Cull      HubCull           `yaml:"cull" doc:"When to stop idle servers; false for never."`
	PrePull   bool              `yaml:"prePull" doc:"Pull the profiles' images to the nodes beforehand."`
	Isolate   *bool             `yaml:"isolate" doc:"Network policies around hub and notebooks. Default true."`
	Reach     []netip.Prefix    `yaml:"reach" doc:"Private networks that notebooks may reach despite isolate, e.g. 10.0.0.0/24."`
	Quota     *HubQuota         `yaml:"quota" doc:"Limits for all notebooks together. Default: no limit."`
}

// HubDatabase may also be written as its kind alone.
type HubDatabase struct {
	Kind  string         `yaml:"kind" short:"text" enum:"sqlite,postgres" doc:"Default sqlite, in a volume of its own."`
	Class string         `yaml:"class" doc:"Storage class of that volume. Default: the default one."`
	Size  *spec.Size     `yaml:"size" doc:"Size of that volume. Default 1GiB."`
	URL   spec.SecretRef `yaml:"url" doc:"For postgres: reference to postgresql://user:password@host/name."`
}

// HubAuth may also be written as its kind alone.
type HubAuth struct {
	Kind     string      `yaml:"kind" short:"text" enum:"dummy,native,oidc,ldap,github" doc:"How people log in. Default: the one with a key below."`
	AllowAll *bool       `yaml:"allowAll" doc:"Anyone who can log in may use the hub. Default true with dummy and native."`
	Users    []string    `yaml:"users" doc:"These may."`
	Admins   []string    `yaml:"admins" doc:"Users who administer the hub."`
	Dummy    *AuthDummy  `yaml:"dummy" doc:"One password for all users. For the lab."`
	Native   *AuthNative `yaml:"native" doc:"Users and passwords in the hub's own database."`
	OIDC     *AuthOIDC   `yaml:"oidc" doc:"An OpenID Connect provider: Keycloak, Authentik, Dex and the like."`
	LDAP     *AuthLDAP   `yaml:"ldap" doc:"A directory."`
	GitHub   *AuthGitHub `yaml:"github" doc:"GitHub."`
}

type AuthDummy struct {
	_        struct{}       `short:"switch"`
	Password spec.SecretRef `yaml:"password" doc:"Reference to the common password. Default: generated and kept in the cluster."`
}

type AuthNative struct {
	_          struct{} `short:"switch"`
	OpenSignup bool     `yaml:"openSignup" doc:"Anyone who signs up may log in at once. Default: an admin approves people first."`
}

type AuthOIDC struct {
	Issuer        string         `yaml:"issuer" required:"true" doc:"URL of the provider, e.g. https://id.lab.example/realms/lab."`
	ClientID      string         `yaml:"clientID" required:"true" doc:"Name of the hub at the provider."`
	ClientSecret  spec.SecretRef `yaml:"clientSecret" required:"true" doc:"Reference to its secret."`
	AuthorizeURL  string         `yaml:"authorizeURL" doc:"Default: what the issuer publishes."`
	TokenURL      string         `yaml:"tokenURL" doc:"Default: what the issuer publishes."`
	UserdataURL   string         `yaml:"userdataURL" doc:"Default: what the issuer publishes."`
	UsernameClaim string         `yaml:"usernameClaim" doc:"Default preferred_username."`
	GroupsClaim   string         `yaml:"groupsClaim" doc:"Claim with the user's groups. Default: groups, if the file names groups."`
	AllowedGroups []string       `yaml:"allowedGroups" doc:"Members of these may log in."`
	AdminGroups   []string       `yaml:"adminGroups" doc:"Members of these administer the hub."`
	Scopes        []string       `yaml:"scopes" doc:"Default openid, profile and email."`
	Button        string         `yaml:"button" doc:"Text of the login button."`
	CA            string         `yaml:"ca" doc:"PEM file of the authority that signed the provider's certificate."`
}

type AuthLDAP struct {
	Server         string         `yaml:"server" required:"true" doc:"ldaps://host, or ldap://host."`
	BindDN         []string       `yaml:"bindDN" doc:"Templates of users' distinguished names, e.g. uid={username},ou=people,dc=lab,dc=example."`
	SearchBase     string         `yaml:"searchBase" doc:"Where users are."`
	Groups         []string       `yaml:"groups" doc:"Members of these may log in."`
	LookupDN       bool           `yaml:"lookupDN" doc:"Search for the user's distinguished name first, with searchUser."`
	SearchUser     string         `yaml:"searchUser" doc:"Distinguished name that searches."`
	SearchPassword spec.SecretRef `yaml:"searchPassword" doc:"Reference to its password."`
	UserAttribute  string         `yaml:"userAttribute" doc:"Default uid."`
	CA             string         `yaml:"ca" doc:"PEM file of the authority that signed the directory's certificate."`
}

type AuthGitHub struct {
	ClientID      string         `yaml:"clientID" required:"true" doc:"ID of the OAuth app."`
	ClientSecret  spec.SecretRef `yaml:"clientSecret" required:"true" doc:"Reference to its secret."`
	Organizations []string       `yaml:"organizations" doc:"Members of these may log in: name, or name:team."`
}

type HubProfile struct {
	Title        string            `yaml:"title" doc:"What the list shows. Default: the name."`
	Description  string            `yaml:"description" doc:"Text below the title."`
	Image        string            `yaml:"image" doc:"Image with its tag. Default: a notebook of the Jupyter project, with PyTorch and CUDA for GPUs."`
	Default      bool              `yaml:"default" doc:"Preselect this profile. Default: the first."`
	CPU          CPU               `yaml:"cpu" doc:"Cores: a number, or guarantee and limit."`
	Memory       Memory            `yaml:"memory" doc:"A size, or guarantee and limit. Default guarantee 1GiB."`
	GPUs         *int              `yaml:"gpus" doc:"Number of GPUs. Default 0."`
	GPUMemory    *spec.Size        `yaml:"gpuMemory" doc:"Memory of one GPU that is shared with MPS."`
	MIG          string            `yaml:"mig" doc:"MIG profile of the instance that it gets, e.g. 1g.5gb, where a node's GPUs are not all divided alike."`
	Pool         string            `yaml:"pool" doc:"The pool of nodes that it runs on. Default: any."`
	RuntimeClass string            `yaml:"runtimeClass" doc:"Default nvidia with GPUs."`
	Groups       []string          `yaml:"groups" doc:"Groups of users that see it. Default: all users."`
	Env          map[string]string `yaml:"env" doc:"Environment variables. No secrets."`
	DefaultURL   string            `yaml:"defaultURL" doc:"First page in the browser, e.g. /lab."`
	SHM          *spec.Size        `yaml:"shm" doc:"Size of /dev/shm. Default: the hub's."`
}

// CPU may also be written as a number, which is both.
type CPU struct {
	Guarantee *Cores `yaml:"guarantee" short:"size" doc:"Reserved amount. Default: the limit."`
	Limit     *Cores `yaml:"limit" short:"size" doc:"Maximum. Default: none."`
}

// Memory may also be written as a size, which is both.
type Memory struct {
	Guarantee *spec.Size `yaml:"guarantee" short:"size" doc:"Reserved amount. Default: the limit."`
	Limit     *spec.Size `yaml:"limit" short:"size" doc:"Above it, the kernel kills the process. Default: none."`
}

// HubHome may also be written as its size alone.
type HubHome struct {
	Size  *spec.Size `yaml:"size" short:"size" doc:"Size of each user's volume. Default 20GiB."`
	Class string     `yaml:"class" doc:"Its storage class. Default: the default one."`
	Claim string     `yaml:"claim" doc:"One existing claim, with a folder for each user, instead of one volume each."`
	Path  string     `yaml:"path" doc:"Path in the notebook. Default /home/jovyan."`

	ClaimTemplate string `yaml:"claimTemplate" doc:"Name of users' claims, kubespawner's pvc_name_template, to adopt an existing hub. Default: the chart's."`
	SubPath       string `yaml:"subPath" doc:"Folder of the volume that is the home; may have {username}. Default: all of it."`
}

// HubShare may also be written as its path alone.
type HubShare struct {
	Path     string   `yaml:"path" short:"text" doc:"Path in the notebook. Default /shared/NAME."`
	ReadOnly *bool    `yaml:"readOnly" doc:"Default: the share's."`
	Groups   []string `yaml:"groups" doc:"Groups of users whose notebooks mount it. Default: all users."`
}

// HubScratch may also be written as its size alone.
type HubScratch struct {
	_     struct{}   `short:"switch"`
	Size  *spec.Size `yaml:"size" short:"size" doc:"Default 100GiB."`
	Class string     `yaml:"class" doc:"Storage class. Default: that of storage.scratch."`
	Path  string     `yaml:"path" doc:"Path in the notebook. Default /scratch."`
}

// HubCull may also be written as its idle time, or as false.
type HubCull struct {
	Enabled *bool    `yaml:"enabled" short:"bool" doc:"Default true."`
	Idle    Period   `yaml:"idle" short:"text" doc:"Stop a server after this time without activity. Default 1h."`
	MaxAge  Period   `yaml:"maxAge" doc:"Stop a server after this time, even if it is busy. Default: never."`
	Every   Period   `yaml:"every" doc:"How often to check. Default 5m."`
	Exempt  []string `yaml:"exempt" doc:"Users whose servers are never stopped."`
}

type HubQuota struct {
	GPUs   *int       `yaml:"gpus" doc:"GPUs of all notebooks."`
	CPU    *Cores     `yaml:"cpu" doc:"Guaranteed cores of all notebooks."`
	Memory *spec.Size `yaml:"memory" doc:"Guaranteed memory of all notebooks."`
}

// named is a mapping from names to T that keeps the file's order.
type named[T any] []Entry[T]

type Entry[T any] struct {
	Name  string
	Value *T
}

func (n named[T]) Get(name string) *T {
	for _, e := range n {
		if e.Name == name {
			return e.Value
		}
	}
	return nil
}

func (n named[T]) Names() []string {
	out := make([]string, len(n))
	for i, e := range n {
		out[i] = e.Name
	}
	return out
}

// Ordered is implemented by every named list; the decoder recognizes them by it.
type Ordered interface{ orderedMapping() }

func (named[T]) orderedMapping() {}
