package written

import (
	"net/netip"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// Hub may also be written as its hostname alone.
type Hub struct {
	Hostname  string            `yaml:"hostname" jsonschema:"required" jsonschema_description:"Its hostname, e.g. hub.lab.example."`
	Version   string            `yaml:"version" jsonschema_description:"Version of the chart. Default: the pinned one."`
	Namespace string            `yaml:"namespace" jsonschema_description:"Default jupyterhub."`
	Database  HubDatabase       `yaml:"database" jsonschema_description:"Where users and tokens are kept: sqlite or postgres."`
	Auth      *HubAuth          `yaml:"auth" jsonschema_description:"Who may log in."`
	Profiles  named[HubProfile] `yaml:"profiles" jsonschema_description:"What people can start, by name. Default: one without and, if a node has GPUs, one with a GPU."`
	Home      HubHome           `yaml:"home" jsonschema_description:"Each user's own folder."`
	Shared    named[HubShare]   `yaml:"shared" jsonschema_description:"Shares of storage.nfs that every notebook mounts, by name."`
	Scratch   *HubScratch       `yaml:"scratch" jsonschema_description:"An ephemeral volume of each server. Default: none."`
	SHM       *spec.Size        `yaml:"shm" jsonschema_description:"Size of /dev/shm. Default 8GiB."`
	Cull      HubCull           `yaml:"cull" jsonschema_description:"When to stop idle servers; false for never."`
	PrePull   bool              `yaml:"prePull" jsonschema_description:"Pull the profiles' images to the nodes beforehand."`
	Isolate   *bool             `yaml:"isolate" jsonschema_description:"Network policies around hub and notebooks. Default true."`
	Reach     []netip.Prefix    `yaml:"reach" jsonschema_description:"Private networks that notebooks may reach despite isolate, e.g. 10.0.0.0/24."`
	Quota     *HubQuota         `yaml:"quota" jsonschema_description:"Limits for all notebooks together. Default: no limit."`
}

// HubDatabase may also be written as its kind alone.
type HubDatabase struct {
	Kind  string         `yaml:"kind" jsonschema:"enum=sqlite,enum=postgres" jsonschema_description:"Default sqlite, in a volume of its own."`
	Class string         `yaml:"class" jsonschema_description:"Storage class of that volume. Default: the default one."`
	Size  *spec.Size     `yaml:"size" jsonschema_description:"Size of that volume. Default 1GiB."`
	URL   spec.SecretRef `yaml:"url" jsonschema_description:"For postgres: reference to postgresql://user:password@host/name."`
}

// HubAuth may also be written as its kind alone.
type HubAuth struct {
	Kind     string      `yaml:"kind" jsonschema:"enum=dummy,enum=native,enum=oidc,enum=ldap,enum=github" jsonschema_description:"How people log in. Default: the one with a key below."`
	AllowAll *bool       `yaml:"allowAll" jsonschema_description:"Anyone who can log in may use the hub. Default true with dummy and native."`
	Users    []string    `yaml:"users" jsonschema_description:"These may."`
	Admins   []string    `yaml:"admins" jsonschema_description:"Users who administer the hub."`
	Dummy    *AuthDummy  `yaml:"dummy" jsonschema_description:"One password for all users. For the lab."`
	Native   *AuthNative `yaml:"native" jsonschema_description:"Users and passwords in the hub's own database."`
	OIDC     *AuthOIDC   `yaml:"oidc" jsonschema_description:"An OpenID Connect provider: Keycloak, Authentik, Dex and the like."`
	LDAP     *AuthLDAP   `yaml:"ldap" jsonschema_description:"A directory."`
	GitHub   *AuthGitHub `yaml:"github" jsonschema_description:"GitHub."`
}

type AuthDummy struct {
	Password spec.SecretRef `yaml:"password" jsonschema_description:"Reference to the common password. Default: generated and kept in the cluster."`
}

type AuthNative struct {
	OpenSignup bool `yaml:"openSignup" jsonschema_description:"Anyone who signs up may log in at once. Default: an admin approves people first."`
}

type AuthOIDC struct {
	Issuer        string         `yaml:"issuer" jsonschema:"required" jsonschema_description:"URL of the provider, e.g. https://id.lab.example/realms/lab."`
	ClientID      string         `yaml:"clientID" jsonschema:"required" jsonschema_description:"Name of the hub at the provider."`
	ClientSecret  spec.SecretRef `yaml:"clientSecret" jsonschema:"required" jsonschema_description:"Reference to its secret."`
	AuthorizeURL  string         `yaml:"authorizeURL" jsonschema_description:"Default: what the issuer publishes."`
	TokenURL      string         `yaml:"tokenURL" jsonschema_description:"Default: what the issuer publishes."`
	UserdataURL   string         `yaml:"userdataURL" jsonschema_description:"Default: what the issuer publishes."`
	UsernameClaim string         `yaml:"usernameClaim" jsonschema_description:"Default preferred_username."`
	GroupsClaim   string         `yaml:"groupsClaim" jsonschema_description:"Claim with the user's groups. Default: groups, if the file names groups."`
	AllowedGroups []string       `yaml:"allowedGroups" jsonschema_description:"Members of these may log in."`
	AdminGroups   []string       `yaml:"adminGroups" jsonschema_description:"Members of these administer the hub."`
	Scopes        []string       `yaml:"scopes" jsonschema_description:"Default openid, profile and email."`
	Button        string         `yaml:"button" jsonschema_description:"Text of the login button."`
	CA            string         `yaml:"ca" jsonschema_description:"PEM file of the authority that signed the provider's certificate."`
}

type AuthLDAP struct {
	Server         string         `yaml:"server" jsonschema:"required" jsonschema_description:"ldaps://host, or ldap://host."`
	BindDN         []string       `yaml:"bindDN" jsonschema_description:"Templates of users' distinguished names, e.g. uid={username},ou=people,dc=lab,dc=example."`
	SearchBase     string         `yaml:"searchBase" jsonschema_description:"Where users are."`
	Groups         []string       `yaml:"groups" jsonschema_description:"Members of these may log in."`
	LookupDN       bool           `yaml:"lookupDN" jsonschema_description:"Search for the user's distinguished name first, with searchUser."`
	SearchUser     string         `yaml:"searchUser" jsonschema_description:"Distinguished name that searches."`
	SearchPassword spec.SecretRef `yaml:"searchPassword" jsonschema_description:"Reference to its password."`
	UserAttribute  string         `yaml:"userAttribute" jsonschema_description:"Default uid."`
	CA             string         `yaml:"ca" jsonschema_description:"PEM file of the authority that signed the directory's certificate."`
}

type AuthGitHub struct {
	ClientID      string         `yaml:"clientID" jsonschema:"required" jsonschema_description:"ID of the OAuth app."`
	ClientSecret  spec.SecretRef `yaml:"clientSecret" jsonschema:"required" jsonschema_description:"Reference to its secret."`
	Organizations []string       `yaml:"organizations" jsonschema_description:"Members of these may log in: name, or name:team."`
}

type HubProfile struct {
	Title        string            `yaml:"title" jsonschema_description:"What the list shows. Default: the name."`
	Description  string            `yaml:"description" jsonschema_description:"Text below the title."`
	Image        string            `yaml:"image" jsonschema_description:"Image with its tag. Default: a notebook of the Jupyter project, with PyTorch and CUDA for GPUs."`
	Default      bool              `yaml:"default" jsonschema_description:"Preselect this profile. Default: the first."`
	CPU          CPU               `yaml:"cpu" jsonschema_description:"Cores: a number, or guarantee and limit."`
	Memory       Memory            `yaml:"memory" jsonschema_description:"A size, or guarantee and limit. Default guarantee 1GiB."`
	GPUs         *int              `yaml:"gpus" jsonschema_description:"Number of GPUs. Default 0."`
	GPUMemory    *spec.Size        `yaml:"gpuMemory" jsonschema_description:"Memory of one GPU that is shared with MPS."`
	MIG          string            `yaml:"mig" jsonschema_description:"MIG profile of the instance that it gets, e.g. 1g.5gb, where a node's GPUs are not all divided alike."`
	Pool         string            `yaml:"pool" jsonschema_description:"The pool of nodes that it runs on. Default: any."`
	RuntimeClass string            `yaml:"runtimeClass" jsonschema_description:"Default nvidia with GPUs."`
	Groups       []string          `yaml:"groups" jsonschema_description:"Groups of users that see it. Default: all users."`
	Env          map[string]string `yaml:"env" jsonschema_description:"Environment variables. No secrets."`
	DefaultURL   string            `yaml:"defaultURL" jsonschema_description:"First page in the browser, e.g. /lab."`
	SHM          *spec.Size        `yaml:"shm" jsonschema_description:"Size of /dev/shm. Default: the hub's."`
}

// CPU may also be written as a number, which is both.
type CPU struct {
	Guarantee *Cores `yaml:"guarantee" jsonschema_description:"Reserved amount. Default: the limit."`
	Limit     *Cores `yaml:"limit" jsonschema_description:"Maximum. Default: none."`
}

// Memory may also be written as a size, which is both.
type Memory struct {
	Guarantee *spec.Size `yaml:"guarantee" jsonschema_description:"Reserved amount. Default: the limit."`
	Limit     *spec.Size `yaml:"limit" jsonschema_description:"Above it, the kernel kills the process. Default: none."`
}

// HubHome may also be written as its size alone.
type HubHome struct {
	Size  *spec.Size `yaml:"size" jsonschema_description:"Size of each user's volume. Default 20GiB."`
	Class string     `yaml:"class" jsonschema_description:"Its storage class. Default: the default one."`
	Claim string     `yaml:"claim" jsonschema_description:"One existing claim, with a folder for each user, instead of one volume each."`
	Path  string     `yaml:"path" jsonschema_description:"Path in the notebook. Default /home/jovyan."`

	ClaimTemplate string `yaml:"claimTemplate" jsonschema_description:"Name of users' claims, kubespawner's pvc_name_template, to adopt an existing hub. Default: the chart's."`
	SubPath       string `yaml:"subPath" jsonschema_description:"Folder of the volume that is the home; may have {username}. Default: all of it."`
}

// HubShare may also be written as its path alone.
type HubShare struct {
	Path     string   `yaml:"path" jsonschema_description:"Path in the notebook. Default /shared/NAME."`
	ReadOnly *bool    `yaml:"readOnly" jsonschema_description:"Default: the share's."`
	Groups   []string `yaml:"groups" jsonschema_description:"Groups of users whose notebooks mount it. Default: all users."`
}

// HubScratch may also be written as its size alone.
type HubScratch struct {
	Size  *spec.Size `yaml:"size" jsonschema_description:"Default 100GiB."`
	Class string     `yaml:"class" jsonschema_description:"Storage class. Default: that of storage.scratch."`
	Path  string     `yaml:"path" jsonschema_description:"Path in the notebook. Default /scratch."`
}

// HubCull may also be written as its idle time, or as false.
type HubCull struct {
	Enabled *bool    `yaml:"enabled" jsonschema_description:"Default true."`
	Idle    Period   `yaml:"idle" jsonschema_description:"Stop a server after this time without activity. Default 1h."`
	MaxAge  Period   `yaml:"maxAge" jsonschema_description:"Stop a server after this time, even if it is busy. Default: never."`
	Every   Period   `yaml:"every" jsonschema_description:"How often to check. Default 5m."`
	Exempt  []string `yaml:"exempt" jsonschema_description:"Users whose servers are never stopped."`
}

type HubQuota struct {
	GPUs   *int       `yaml:"gpus" jsonschema_description:"GPUs of all notebooks."`
	CPU    *Cores     `yaml:"cpu" jsonschema_description:"Guaranteed cores of all notebooks."`
	Memory *spec.Size `yaml:"memory" jsonschema_description:"Guaranteed memory of all notebooks."`
}
