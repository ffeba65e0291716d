package spec

import (
	"net/url"
	"time"
)

// Login is one account for the hub, Grafana, Rancher, Argo CD and kubectl; groups give rights. Without a provider Dex
// comes along, which asks one or several sources who somebody is.
type Login struct {
	Hostname      string   `yaml:"hostname" absent:"required without ‘provider’" doc:"A name of Dex that your DNS resolves to the cluster."`
	AllowedGroups []string `yaml:"allowedGroups" doc:"Groups whose members use the hub and the chat, and look at Grafana and Argo CD."`
	AdminGroups   []string `yaml:"adminGroups" doc:"Groups whose members administer these, and Rancher."`
	// Given to kubectl, whose tokens the API server checks by itself.
	ClusterRoles map[string]string `yaml:"clusterRoles" absent:"none: kubectl keeps its own accounts" doc:"What groups may do with ‘kubectl’, as the name of a ClusterRole: ‘{staff: cluster-admin, students: view}’. Not with ‘tls: self-signed’, whose authority servers do not know."`
	People       []Person          `yaml:"people,named" absent:"none" doc:"People whom this file knows, by the names that they have in the hub."`
	GitHub       *LoginGitHub      `yaml:"github" doc:"Accounts of GitHub."`
	LDAP         *LoginLDAP        `yaml:"ldap" doc:"Accounts of a directory."`
	OIDC         *LoginOIDC        `yaml:"oidc" doc:"Accounts of an OpenID Connect provider."`
	Provider     *LoginProvider    `yaml:"provider" absent:"Dex comes along" doc:"An OpenID Connect provider that exists, which the programs ask themselves. Without Dex, and so without ‘hostname’, ‘people’, ‘github’, ‘ldap’ and ‘oidc’."`
}

// Person is an account of Dex's own.
type Person struct {
	Name   string    `yaml:"-"`
	Email  string    `yaml:"email" required:"true" doc:"What the person types to sign in."`
	Hash   SecretRef `yaml:"hash" required:"true" doc:"Reference to the bcrypt hash of the password, as ‘htpasswd -nBC 12 NAME’ prints it after the colon."`
	Groups []string  `yaml:"groups" absent:"none" doc:"The person's groups."`
}

// LoginGitHub is an OAuth app of GitHub. A person's groups are their organizations and, as ‘name:team’, teams.
type LoginGitHub struct {
	ClientID     string    `yaml:"clientID" required:"true" doc:"ID of the OAuth app. Its callback is ‘https://HOSTNAME/callback’."`
	ClientSecret SecretRef `yaml:"clientSecret" required:"true" doc:"Reference to its secret."`
}

// LoginLDAP is a directory.
type LoginLDAP struct {
	Server          string    `yaml:"server" required:"true" doc:"‘ldaps://host’. With ‘ldap://’ Dex asks for StartTLS."`
	SearchUser      string    `yaml:"searchUser" absent:"anonymous" doc:"Distinguished name that searches."`
	SearchPassword  SecretRef `yaml:"searchPassword" absent:"required with ‘searchUser’" doc:"Reference to its password."`
	SearchBase      string    `yaml:"searchBase" required:"true" doc:"Where people are."`
	UserAttribute   string    `yaml:"userAttribute" default:"uid" doc:"Attribute with the name that people type. Active Directory: ‘sAMAccountName’."`
	GroupBase       string    `yaml:"groupBase" absent:"‘searchBase’" doc:"Where groups are."`
	MemberAttribute string    `yaml:"memberAttribute" default:"member" doc:"Attribute of groups that lists members: distinguished names, or with ‘memberUid’ the names that people type."`
	CA              string    `yaml:"ca" absent:"system's" doc:"PEM of the authority of the directory's certificate."`
}

// LoginOIDC is an OpenID Connect provider.
type LoginOIDC struct {
	Issuer       string    `yaml:"issuer" required:"true" doc:"URL below which ‘.well-known/openid-configuration’ is."`
	ClientID     string    `yaml:"clientID" required:"true" doc:"Dex's name at the provider. Its redirect URL is ‘https://HOSTNAME/callback’."`
	ClientSecret SecretRef `yaml:"clientSecret" required:"true" doc:"Reference to its secret."`
	Scopes       []string  `yaml:"scopes" default:"profile,email" doc:"What Dex asks for, beside ‘openid’ and ‘offline_access’."`
	GroupsClaim  string    `yaml:"groupsClaim" default:"groups" doc:"Claim with a person's groups."`
	NameClaim    string    `yaml:"nameClaim" default:"preferred_username" doc:"Claim with a person's name in the hub, e.g. ‘email’."`
	CA           string    `yaml:"ca" absent:"system's" doc:"PEM of the authority of the provider's certificate."`
}

// LoginProvider is an OpenID Connect provider that exists.
type LoginProvider struct {
	Issuer       string        `yaml:"issuer" required:"true" doc:"URL below which ‘.well-known/openid-configuration’ is, exactly as that calls itself."`
	CA           string        `yaml:"ca" absent:"system's" doc:"PEM of the authority of its certificate, which the programs trust as well."`
	ClientID     string        `yaml:"clientID" absent:"that of ‘clients’" doc:"Name of the programs at the provider: all in one client. Its redirect URLs are those that ‘cluster:plan’ prints."`
	ClientSecret SecretRef     `yaml:"clientSecret" absent:"required with ‘clientID’" doc:"Reference to its secret."`
	Clients      []LoginClient `yaml:"clients,named" absent:"the one client" doc:"Programs with a client of their own: ‘hub’, ‘grafana’, ‘rancher’, ‘argocd’, ‘chat’; and ‘kubectl’, whose client is public, if there are ‘clusterRoles’."`
	Scopes       []string      `yaml:"scopes" default:"openid,profile,email,offline_access" doc:"What programs ask for. Most providers give tokens to ask again with for ‘offline_access’ only."`
	GroupsClaim  string        `yaml:"groupsClaim" default:"groups" doc:"Claim with a person's groups, in the ID token and in what the provider says of the user."`
	NameClaim    string        `yaml:"nameClaim" default:"preferred_username" doc:"Claim with a person's name in the hub, e.g. ‘email’. Nobody may be able to choose a name that another has."`
}

// LoginClient is what a program calls itself at a provider.
type LoginClient struct {
	Name         string    `yaml:"-"`
	ClientID     string    `yaml:"clientID" required:"true" doc:"Name of the program at the provider."`
	ClientSecret SecretRef `yaml:"clientSecret" absent:"none: for ‘kubectl’" doc:"Reference to its secret."`
}

// Programs that people sign in to: their IDs at Dex, and keys of a provider's clients.
const (
	LoginHub     = "hub"
	LoginGrafana = "grafana"
	LoginRancher = "rancher"
	LoginChat    = "chat"
	LoginArgoCD  = "argocd"
	LoginKubectl = "kubectl"
)

// Times of sign-ins. A token of Dex says for LoginToken who somebody is; then Dex asks the source again. The hub looks
// at the token every LoginCheck. So who leaves is out after the sum of both.
const (
	LoginToken = 45 * time.Second
	LoginCheck = 15 * time.Second
)

// Issuer is who says who somebody is, as programs ask it: Dex, or the provider of the file.
type Issuer struct {
	URL string // what tokens name
	// Addresses that differ from those that it publishes. Dex is asked inside the cluster, and browsers use its name.
	Authorize, Token, Userinfo, Keys string
	CA                               string   // file with the authority of a provider's certificate; empty: the system's
	Scopes                           []string // with offline_access programs get tokens to ask again with
	NameClaim, GroupsClaim           string
}

// Issuer is the login's; zero without one.
func (p *Platform) Issuer() Issuer {
	if p.Login == nil {
		return Issuer{}
	}
	if o := p.Login.Provider; o != nil {
		return Issuer{URL: o.Issuer, CA: o.CA, Scopes: o.Scopes, NameClaim: o.NameClaim, GroupsClaim: o.GroupsClaim}
	}
	name, inside := "https://"+p.Login.Hostname, "http://dex.dex:5556"
	if p.TLS == nil {
		name = "http://" + p.Login.Hostname
	}
	return Issuer{
		URL: name, Authorize: name + "/auth", Token: inside + "/token", Userinfo: inside + "/userinfo", Keys: inside + "/keys",
		Scopes: []string{"openid", "profile", "email", "groups", "offline_access"}, NameClaim: "preferred_username", GroupsClaim: "groups",
	}
}

// Origin is where people sign in: a provider's pages may have other paths than its name.
func (i Issuer) Origin() string {
	u, err := url.Parse(i.URL)
	if err != nil || u.Host == "" {
		return i.URL
	}
	return u.Scheme + "://" + u.Host
}

// Client is what a program calls itself. Dex knows each by its own name, with a secret that is made in the cluster.
func (l *Login) Client(program string) LoginClient {
	if l.Provider == nil {
		return LoginClient{Name: program, ClientID: program}
	}
	for _, c := range l.Provider.Clients {
		if c.Name == program {
			return c
		}
	}
	return LoginClient{Name: program, ClientID: l.Provider.ClientID, ClientSecret: l.Provider.ClientSecret}
}

// HubSignsIn reports whether people sign in to the hub by the login.
func (p *Platform) HubSignsIn() bool {
	return p.Login != nil && p.Hub != nil && p.Hub.Auth.OIDC != nil && p.Hub.Auth.OIDC.Issuer == p.Issuer().URL && p.Hub.Auth.OIDC.ClientSecret.IsZero()
}

// RancherSignsIn reports whether people sign in to Rancher by the login: its administrators do.
func (p *Platform) RancherSignsIn() bool {
	return p.Login != nil && p.Rancher != nil && len(p.Login.AdminGroups) > 0
}

// ArgoCDHasPages reports whether people reach Argo CD's pages by a name, and ArgoCDSignsIn whether they sign in to
// them by the login.
func (p *Platform) ArgoCDHasPages() bool {
	return p.ArgoCD != nil && p.ArgoCD.Standalone.IsOn() && p.ArgoCD.Hostname != ""
}

func (p *Platform) ArgoCDSignsIn() bool { return p.Login != nil && p.ArgoCDHasPages() }

// GrafanaSignsIn reports whether people sign in to Grafana by the login.
func (p *Platform) GrafanaSignsIn() bool {
	return p.Login != nil && p.Monitoring != nil && p.Monitoring.Hostname != ""
}

// LoginPrefix begins the names that people and groups have in Kubernetes, so that no group of a source is one of
// Kubernetes' own, such as system:masters.
const LoginPrefix = "login:"

// LoginArgs are the API server's arguments by which it takes the login's tokens; nil: it takes none.
func (p *Platform) LoginArgs() []any {
	if p.Login == nil || len(p.Login.ClusterRoles) == 0 {
		return nil
	}
	its := p.Issuer()
	return []any{
		"oidc-issuer-url=" + its.URL, "oidc-client-id=" + p.Login.Client(LoginKubectl).ClientID,
		"oidc-username-claim=" + its.NameClaim, "oidc-username-prefix=" + LoginPrefix, "oidc-groups-claim=" + its.GroupsClaim, "oidc-groups-prefix=" + LoginPrefix,
	}
}
