package spec

import (
	"cmp"
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
	Hostname     string         `yaml:"hostname" short:"text" required:"true" doc:"A name that your DNS resolves to the cluster."`
	Version      string         `yaml:"version" absent:"pinned" doc:"Of the chart."`
	Namespace    string         `yaml:"namespace" default:"jupyterhub" doc:"Namespace of the hub and its notebooks."`
	Database     HubDatabase    `yaml:"database" absent:"‘sqlite’" doc:"Where users and tokens are kept."`
	Auth         HubAuth        `yaml:"auth" absent:"required, except in the lab" doc:"Who may log in."`
	Profiles     []HubProfile   `yaml:"profiles,named" absent:"one without GPU and, if a node has GPUs, one with a GPU" doc:"What people can start: [profiles.md](profiles.md)."`
	Home         HubHome        `yaml:"home" absent:"20GiB each, of the default class" doc:"Each user's own folder."`
	Shared       []HubShare     `yaml:"shared,named" doc:"Shares of ‘storage.nfs’ that every notebook mounts."`
	Scratch      *HubScratch    `yaml:"scratch" doc:"An ephemeral volume for each server: ‘true’, a size, or the keys below."`
	SHM          Size           `yaml:"shm" default:"8GiB" doc:"Size of ‘/dev/shm’, which is memory: at most half of a profile’s limit."`
	Announcement string         `yaml:"announcement" json:",omitempty" doc:"Text above every page of the hub, e.g. when it is down for maintenance."`
	Cull         HubCull        `yaml:"cull" absent:"after an hour" doc:"When to stop idle servers: a duration, ‘false’, or the keys below."`
	PrePull      bool           `yaml:"prePull" doc:"Pull the profiles' images beforehand."`
	Isolate      Switch         `yaml:"isolate" default:"true" doc:"Network policies around hub and notebooks."`
	Reach        []netip.Prefix `yaml:"reach" doc:"Private networks that notebooks may reach despite ‘isolate’."`
	SSH          bool           `yaml:"ssh" json:",omitempty" doc:"SSH, SFTP and VS Code into one’s own server: [ssh.md](ssh.md)."`
	Quota        HubQuota       `yaml:"quota" absent:"no limit" doc:"Limits for all notebooks together."`
}

// HubDatabase may also be written as its kind alone.
type HubDatabase struct {
	Kind  string    `yaml:"kind" short:"text" enum:"sqlite,postgres" absent:"‘sqlite’" doc:"‘sqlite’, in a volume of its own, or ‘postgres’, by ‘name’ or ‘url’."`
	Class string    `yaml:"class" absent:"default class" doc:"Its storage class."`
	Size  Size      `yaml:"size" absent:"1GiB" doc:"Its size."`
	URL   SecretRef `yaml:"url" absent:"required for ‘postgres’ without ‘name’" doc:"Reference to ‘postgresql://user:password@host/name’ of a server that exists."`
	Name  string    `yaml:"name" json:",omitempty" absent:"none" doc:"One of ‘postgres.databases’, with the hub's namespace: [hub.md](hub.md#a-database-of-the-cluster)."`
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
	Kind     string      `yaml:"kind" short:"text" enum:"dummy,native,oidc,ldap,github" absent:"the one with a key here" doc:"‘dummy’, ‘native’, ‘oidc’, ‘ldap’ or ‘github’."`
	AllowAll Switch      `yaml:"allowAll" absent:"‘true’ with ‘dummy’ and ‘native’" doc:"Everyone who can log in may use the hub."`
	Users    []string    `yaml:"users" doc:"Users who may use the hub."`
	Admins   []string    `yaml:"admins" doc:"Users who administer the hub. With ‘native’ they also approve new users."`
	Dummy    *DummyAuth  `yaml:"dummy" doc:"One password for all users, for the lab."`
	Native   *NativeAuth `yaml:"native" doc:"Users and passwords in the hub's own database."`
	OIDC     *OIDCAuth   `yaml:"oidc" doc:"An OpenID Connect provider."`
	LDAP     *LDAPAuth   `yaml:"ldap" doc:"A directory."`
	GitHub   *GitHubAuth `yaml:"github" doc:"GitHub."`
}

// Groups reports whether the login provides users' groups.
func (a HubAuth) Groups() bool {
	return a.Kind == AuthOIDC && a.OIDC != nil && a.OIDC.GroupsClaim != ""
}

// Profile returns the profile of that name, or of one of its sizes; nil: there is none.
func (h *Hub) Profile(name string) *HubProfile {
	name, _, _ = strings.Cut(name, "/")
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
	Password SecretRef `yaml:"password" absent:"generated, and kept in the cluster" doc:"Reference to the common password, 8 characters at least."`
}

// NativeAuth has users and passwords in the hub's own database.
type NativeAuth struct {
	_          struct{} `short:"switch"`
	OpenSignup bool     `yaml:"openSignup" doc:"New users may log in at once, without an admin's approval."`
}

// OIDCAuth is an OpenID Connect provider.
type OIDCAuth struct {
	Issuer        string    `yaml:"issuer" required:"true" doc:"URL below which ‘.well-known/openid-configuration’ is."`
	ClientID      string    `yaml:"clientID" required:"true" doc:"The hub's name at the provider."`
	ClientSecret  SecretRef `yaml:"clientSecret" required:"true" doc:"Reference to its secret."`
	AuthorizeURL  string    `yaml:"authorizeURL" absent:"what the issuer publishes" doc:"Where the browser is sent. Set all three URLs, or none."`
	TokenURL      string    `yaml:"tokenURL" absent:"what the issuer publishes" doc:"Where the hub gets its token."`
	UserdataURL   string    `yaml:"userdataURL" absent:"what the issuer publishes" doc:"Where the hub reads who the user is."`
	UsernameClaim string    `yaml:"usernameClaim" default:"preferred_username" doc:"Claim with the name of the user."`
	GroupsClaim   string    `yaml:"groupsClaim" absent:"‘groups’, if the file names groups" doc:"Claim with the user's groups; dots select nested keys, ‘realm_access.roles’."`
	AllowedGroups []string  `yaml:"allowedGroups" doc:"Members may log in."`
	AdminGroups   []string  `yaml:"adminGroups" doc:"Members administer the hub."`
	Scopes        []string  `yaml:"scopes" absent:"‘[openid, profile, email]’" doc:"What the hub asks the provider for."`
	Button        string    `yaml:"button" absent:"the login method's" doc:"Text of the login button."`
	CA            string    `yaml:"ca" absent:"the system's, and that of ‘tls’" doc:"PEM of the authority of the provider's certificate."`
}

// LDAPAuth is a directory.
type LDAPAuth struct {
	Server         string    `yaml:"server" required:"true" doc:"‘ldaps://host’."`
	BindDN         []string  `yaml:"bindDN" absent:"this or ‘lookupDN’" doc:"Templates of users' distinguished names, ‘uid={username},ou=people,dc=lab,dc=example’."`
	SearchBase     string    `yaml:"searchBase" absent:"required with ‘lookupDN’" doc:"Where users are."`
	Groups         []string  `yaml:"groups" doc:"Members may log in; distinguished names."`
	LookupDN       bool      `yaml:"lookupDN" doc:"Search for the user's distinguished name first."`
	SearchUser     string    `yaml:"searchUser" absent:"anonymous" doc:"Distinguished name that searches."`
	SearchPassword SecretRef `yaml:"searchPassword" absent:"required with ‘searchUser’" doc:"Reference to its password."`
	UserAttribute  string    `yaml:"userAttribute" default:"uid" doc:"Attribute with the name that people type."`
	CA             string    `yaml:"ca" absent:"system's" doc:"PEM of the authority of the directory's certificate."`
}

// GitHubAuth is GitHub.
type GitHubAuth struct {
	ClientID      string    `yaml:"clientID" required:"true" doc:"ID of the OAuth app. Its callback is ‘https://HOSTNAME/hub/oauth_callback’."`
	ClientSecret  SecretRef `yaml:"clientSecret" required:"true" doc:"Reference to its secret."`
	Organizations []string  `yaml:"organizations" doc:"Members may log in: ‘name’, or ‘name:team’."`
}

// HubProfile is a choice in the hub's form.
type HubProfile struct {
	Name             string            `yaml:"-"`
	Title            string            `yaml:"title" absent:"the name" doc:"What the list shows."`
	Description      string            `yaml:"description" doc:"Text below the title."`
	Image            string            `yaml:"image" absent:"a notebook of the Jupyter project, with PyTorch and CUDA for GPUs" doc:"Image with its tag."`
	Images           []HubImage        `yaml:"images,named" absent:"‘image’" doc:"Images to choose from, by name. The first one is preselected."`
	OtherImages      string            `yaml:"otherImages" doc:"Further images that people may type: a regular expression, ‘quay\\.io/jupyter/.+’."`
	Sizes            []HubSize         `yaml:"sizes,named" absent:"‘cpu’, ‘memory’ and ‘gpus’" doc:"Sizes to choose from, by name. The first one is preselected."`
	Default          bool              `yaml:"default" absent:"the first one" doc:"Preselect this profile."`
	CPU              CPU               `yaml:"cpu" absent:"no limit" doc:"Cores: ‘4’, ‘0.5’ or ‘500m’ for guarantee and limit both, or the two keys."`
	Memory           Memory            `yaml:"memory" absent:"guarantee 1GiB" doc:"In the same way: ‘8GiB’, or the two keys."`
	EphemeralStorage EphemeralStorage  `yaml:"ephemeralStorage" json:",omitzero" absent:"no limit" doc:"What a server may write outside of volumes, on its node's disk: ‘20GiB’, or the two keys."`
	GPUs             int               `yaml:"gpus" doc:"Number of GPUs that a server gets."`
	GPUMemory        Size              `yaml:"gpuMemory" absent:"all of it" doc:"Memory of a GPU shared with MPS, at most its part of the card."`
	MIG              string            `yaml:"mig" doc:"MIG profile of the instance that it gets, e.g. ‘1g.5gb’. Where all GPUs of a node are divided alike, write ‘gpus: 1’."`
	Pool             string            `yaml:"pool" absent:"any" doc:"Pool of nodes that it runs on, or a node that is in no pool."`
	RuntimeClass     string            `yaml:"runtimeClass" absent:"‘nvidia’ with GPUs" doc:"RuntimeClass of its pods."`
	Groups           []string          `yaml:"groups" absent:"all users" doc:"Groups of users that see it."`
	Env              map[string]string `yaml:"env" doc:"Environment variables. No secrets."`
	Packages         []string          `yaml:"packages" json:",omitempty" doc:"Python packages that pip installs at every start of a server, ‘torchmetrics==1.8.2’."`
	Start            string            `yaml:"start" json:",omitempty" doc:"Shell script that runs in the notebook before the server: [profiles.md](profiles.md#before-a-server-starts)."`
	Idle             time.Duration     `yaml:"idle" json:",omitempty" absent:"‘hub.cull.idle’" doc:"Stop its servers after this time without activity."`
	DefaultURL       string            `yaml:"defaultURL" absent:"the hub's" doc:"First page in the browser, ‘/lab’."`
	SHM              Size              `yaml:"shm" absent:"‘hub.shm’" doc:"Size of ‘/dev/shm’."`
}

// Variants returns each profile in each of its sizes, whose names are PROFILE/SIZE; one without sizes as it is.
func Variants(profiles ...HubProfile) (out []HubProfile) {
	for _, p := range profiles {
		if len(p.Sizes) == 0 {
			out = append(out, p)
		}
		for _, s := range p.Sizes {
			v := p
			v.Name, v.Sizes = p.Name+"/"+s.Name, nil
			v.CPU, v.Memory, v.GPUs = cmp.Or(s.CPU, p.CPU), cmp.Or(s.Memory, p.Memory), cmp.Or(s.GPUs, p.GPUs)
			out = append(out, v)
		}
	}
	return out
}

// HubImage may also be written as its image alone.
type HubImage struct {
	Name  string `yaml:"-"`
	Title string `yaml:"title" absent:"the name" doc:"What the list shows."`
	Image string `yaml:"image" short:"text" required:"true" doc:"Image with its tag."`
}

// HubSize is what a server of a profile gets in place of the profile's own.
type HubSize struct {
	Name   string `yaml:"-"`
	Title  string `yaml:"title" absent:"the name" doc:"What the list shows."`
	CPU    CPU    `yaml:"cpu" absent:"the profile's" doc:"As in the profile."`
	Memory Memory `yaml:"memory" absent:"the profile's" doc:"As in the profile."`
	GPUs   int    `yaml:"gpus" absent:"the profile's" doc:"Number of GPUs."`
}

// CPU may also be written as a number, which is both.
type CPU struct {
	Guarantee Cores `yaml:"guarantee" short:"size" absent:"the limit" doc:"Reserved cores. The scheduler counts these."`
	Limit     Cores `yaml:"limit" short:"size" doc:"Maximum."`
}

// Memory may also be written as a size, which is both.
type Memory struct {
	Guarantee Size `yaml:"guarantee" short:"size" absent:"the limit, else 1GiB" doc:"Reserved memory."`
	Limit     Size `yaml:"limit" short:"size" doc:"Above it, the kernel kills the process."`
}

// EphemeralStorage is Kubernetes' ephemeral storage of a server; it may also be written as its limit alone.
type EphemeralStorage struct {
	Guarantee Size `yaml:"guarantee" absent:"the limit, at most 1GiB" doc:"Reserved disk. The scheduler counts it."`
	Limit     Size `yaml:"limit" short:"size" doc:"Above it, the kubelet stops the server."`
}

// HubHome may also be written as its size alone.
type HubHome struct {
	Size  Size   `yaml:"size" short:"size" absent:"20GiB" doc:"Size of each user's volume."`
	Class string `yaml:"class" absent:"default class" doc:"Their storage class."`
	Claim string `yaml:"claim" doc:"One existing claim with a folder for each user instead."`
	Path  string `yaml:"path" default:"/home/jovyan" doc:"Path in the notebook."`

	ClaimTemplate string `yaml:"claimTemplate" absent:"the chart's" doc:"Name of users' claims, ‘claim-{username}’, to adopt an existing hub."`
	SubPath       string `yaml:"subPath" absent:"the whole volume" doc:"Folder of the volume that is the home; may have ‘{username}’."`
}

// HubShare may also be written as its path alone.
type HubShare struct {
	Name     string   `yaml:"-"` // of a share of Storage.NFS
	Path     string   `yaml:"path" short:"text" absent:"‘/shared/NAME’" doc:"Path in the notebook."`
	ReadOnly Switch   `yaml:"readOnly" absent:"the share's" doc:"Mount it read-only."`
	Groups   []string `yaml:"groups" absent:"all users" doc:"Groups of users whose notebooks mount it."`
	PerGroup bool     `yaml:"perGroup" json:",omitempty" doc:"Mount only a folder of the share for each of ‘groups’, ‘PATH/GROUP’, in its members' notebooks."`
	Writers  []string `yaml:"writers" json:",omitempty" doc:"Groups of users who may write in it despite ‘readOnly’."`
}

// HubScratch may also be written as its size alone.
type HubScratch struct {
	_     struct{} `short:"switch"`
	Size  Size     `yaml:"size" short:"size" default:"100GiB" doc:"Its size."`
	Class string   `yaml:"class" absent:"that of ‘storage.scratch’" doc:"Its storage class."`
	Path  string   `yaml:"path" default:"/scratch" doc:"Path in the notebook."`
}

// HubCull may also be written as its idle time, or as false.
type HubCull struct {
	Enabled Switch        `yaml:"enabled" short:"bool" default:"true" doc:"Stop servers that nobody uses."`
	Idle    time.Duration `yaml:"idle" short:"text" default:"1h" absent:"‘1h’" doc:"Stop a server after this time without activity."`
	MaxAge  time.Duration `yaml:"maxAge" absent:"never" doc:"Stop a server after this time, even if it is busy."`
	Every   time.Duration `yaml:"every" default:"5m" absent:"‘5m’" doc:"How often to check."`
	Exempt  []string      `yaml:"exempt" doc:"Users whose servers are never stopped."`
}

// HubQuota limits what all notebooks use together; zero means no limit.
type HubQuota struct {
	GPUs   int   `yaml:"gpus" absent:"no limit" doc:"GPUs of all notebooks."`
	CPU    Cores `yaml:"cpu" absent:"no limit" doc:"Guaranteed cores of all notebooks."`
	Memory Size  `yaml:"memory" absent:"no limit" doc:"Guaranteed memory of all notebooks."`
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
	v, _ := strconv.ParseFloat(text, 64) // the syntax is a number's
	if milli {
		v /= 1000
	}
	*c = Cores(v)
	return nil
}
