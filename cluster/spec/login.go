package spec

import "time"

// Login is Dex: one account for the hub, Grafana, Rancher, Argo CD and kubectl. Dex asks one or several
// sources who somebody is; groups give rights.
type Login struct {
	Hostname      string   `yaml:"hostname" required:"true" doc:"A name of Dex that your DNS resolves to the cluster."`
	AllowedGroups []string `yaml:"allowedGroups" doc:"Groups whose members use the hub and the chat, and look at Grafana and Argo CD."`
	AdminGroups   []string `yaml:"adminGroups" doc:"Groups whose members administer these, and Rancher."`
	// Given to kubectl, whose tokens the API server checks by itself.
	ClusterRoles map[string]string `yaml:"clusterRoles" absent:"none: kubectl keeps its own accounts" doc:"What groups may do with ‘kubectl’, as the name of a ClusterRole: ‘{staff: cluster-admin, students: view}’. Not with ‘tls: self-signed’, whose authority servers do not know."`
	People       []Person          `yaml:"people,named" absent:"none" doc:"People whom this file knows, by the names that they have in the hub."`
	GitHub       *LoginGitHub      `yaml:"github" doc:"Accounts of GitHub."`
	LDAP         *LoginLDAP        `yaml:"ldap" doc:"Accounts of a directory."`
	OIDC         *LoginOIDC        `yaml:"oidc" doc:"Accounts of an OpenID Connect provider."`
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

// Times of sign-ins. A token says for LoginToken who somebody is; then Dex asks the source again. The hub looks
// at the token every LoginCheck. So who leaves is out after the sum of both.
const (
	LoginToken = 45 * time.Second
	LoginCheck = 15 * time.Second
)

// LoginService is Dex inside the cluster, for what needs no browser.
const LoginService = "http://dex.dex:5556"

// Issuer is the address of Dex: what browsers are sent to, and what tokens name as their issuer.
func (p *Platform) Issuer() string {
	if p.Login == nil {
		return ""
	}
	if p.TLS == nil {
		return "http://" + p.Login.Hostname
	}
	return "https://" + p.Login.Hostname
}

// LoginScopes are what programs ask Dex for. With offline_access they get tokens to ask again with.
func LoginScopes() []string {
	return []string{"openid", "profile", "email", "groups", "offline_access"}
}

// HubSignsIn reports whether people sign in to the hub by Dex.
func (p *Platform) HubSignsIn() bool {
	return p.Login != nil && p.Hub != nil && p.Hub.Auth.OIDC != nil && p.Hub.Auth.OIDC.Issuer == p.Issuer() && p.Hub.Auth.OIDC.ClientSecret.IsZero()
}

// RancherSignsIn reports whether people sign in to Rancher by Dex: its administrators do.
func (p *Platform) RancherSignsIn() bool {
	return p.Login != nil && p.Rancher != nil && len(p.Login.AdminGroups) > 0
}

// ArgoCDHasPages reports whether people reach Argo CD's pages by a name, and ArgoCDSignsIn whether they sign in to
// them by Dex.
func (p *Platform) ArgoCDHasPages() bool {
	return p.ArgoCD != nil && p.ArgoCD.Standalone.IsOn() && p.ArgoCD.Hostname != ""
}

func (p *Platform) ArgoCDSignsIn() bool { return p.Login != nil && p.ArgoCDHasPages() }

// LoginKubectl is the name of kubectl at Dex, and LoginPrefix begins the names that people and groups have in
// Kubernetes, so that no group of a source is one of Kubernetes' own, such as system:masters.
const (
	LoginKubectl = "kubectl"
	LoginPrefix  = "login:"
)

// LoginArgs are the API server's arguments by which it takes Dex's tokens; nil: it takes none.
func (p *Platform) LoginArgs() []any {
	if p.Login == nil || len(p.Login.ClusterRoles) == 0 {
		return nil
	}
	return []any{
		"oidc-issuer-url=" + p.Issuer(), "oidc-client-id=" + LoginKubectl,
		"oidc-username-claim=preferred_username", "oidc-username-prefix=" + LoginPrefix, "oidc-groups-claim=groups", "oidc-groups-prefix=" + LoginPrefix,
	}
}
