package jupyterhub

import (
	"encoding/pem"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/suggest"
)

func (h login) checkAuth(c *checker) {
	a := h.Auth
	if _, ok := classes[a.Kind]; !ok {
		c.say("Auth.Kind", "%q: want %s", a.Kind, suggest.JoinOr(slices.Sorted(maps.Keys(classes))))
		return
	}
	if a.Kind == spec.AuthOIDC && a.OIDC == nil || a.Kind == spec.AuthLDAP && a.LDAP == nil || a.Kind == spec.AuthGitHub && a.GitHub == nil {
		c.say("Auth", "%s needs its settings", a.Kind)
		return
	}
	for _, list := range [][]string{a.Users, a.Admins} {
		for _, name := range list {
			if name == "" || strings.TrimSpace(name) != name {
				c.say("Auth.Users", "%q is not a name of a user", name)
			} else if strings.ToLower(name) != name {
				// Authenticator.normalize_username; a name with capitals never matches.
				c.say("Auth.Users", "%q: the hub writes names in small letters, so this one never matches", name)
			}
			if name == verifyUser {
				c.say("Auth.Users", "%s is reserved for hub:verify and never logs in", verifyUser)
			}
		}
	}
	switch a.Kind {
	case spec.AuthDummy:
		if p := h.Secrets.Password.Reveal(); p != "" && len(p) < 8 {
			c.say("Secrets.Password", "shorter than 8 characters, which the hub refuses: choose a longer one, or none to generate one")
		}
	case spec.AuthOIDC:
		h.checkOIDC(c)
	case spec.AuthGitHub:
		h.checkClient(c, a.GitHub.ClientID)
		if slices.Contains(a.GitHub.Organizations, "") {
			c.say("Auth.GitHub.Organizations", "an organization without a name")
		}
	case spec.AuthLDAP:
		h.checkLDAP(c)
	}
	if !allowsAnyone(a) {
		c.say("Auth", "nobody could log in: set AllowAll, Users%s", map[string]string{
			spec.AuthOIDC: ", AllowedGroups or AdminGroups", spec.AuthLDAP: " or LDAP.Groups", spec.AuthGitHub: " or GitHub.Organizations", spec.AuthDummy: "",
		}[a.Kind])
	}
	c.bundle("CA", h.CA)
	c.bundle("AuthCA", h.AuthCA)
}

func (c *checker) bundle(field string, text []byte) {
	if len(text) == 0 {
		return
	}
	if block, _ := pem.Decode(text); block == nil || block.Type != "CERTIFICATE" {
		c.say(field, "no certificates in PEM")
	}
}

// allowsAnyone says whether any user is allowed. Admins alone do not count: some authenticators do
// not allow a user just because it is an admin.
func allowsAnyone(a spec.HubAuth) bool {
	if allowsAll(a) || len(a.Users) > 0 {
		return true
	}
	switch a.Kind {
	case spec.AuthOIDC:
		return len(a.OIDC.AllowedGroups)+len(a.OIDC.AdminGroups) > 0
	case spec.AuthLDAP:
		return len(a.LDAP.Groups) > 0
	case spec.AuthGitHub:
		return len(a.GitHub.Organizations) > 0
	}
	return false
}

func (h login) checkClient(c *checker, id string) {
	c.need("Auth.ClientID", id, "the hub's name at the provider")
	c.needSecret("Secrets.Client", h.Secrets.Client, "the hub's secret at the provider")
}

func (h login) checkOIDC(c *checker) {
	a := h.Auth.OIDC
	h.checkClient(c, a.ClientID)
	for _, e := range [][2]string{{"Authorize", h.Endpoints.Authorize}, {"Token", h.Endpoints.Token}, {"Userinfo", h.Endpoints.Userinfo}} {
		if u, err := url.Parse(e[1]); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			c.say("Endpoints."+e[0], "%q is not a URL: the issuer publishes it (Discover)", e[1])
		}
	}
	if len(a.AllowedGroups)+len(a.AdminGroups) > 0 && a.GroupsClaim == "" {
		c.say("Auth.OIDC.GroupsClaim", "missing: the file names groups, and this is the claim in which the provider lists them, e.g. groups")
	}
	if len(a.Scopes) > 0 && !slices.Contains(a.Scopes, "openid") {
		c.say("Auth.OIDC.Scopes", "openid is not among them: without it this is not OpenID Connect")
	}
	if strings.HasPrefix(a.GroupsClaim, ".") || strings.HasSuffix(a.GroupsClaim, ".") || strings.Contains(a.GroupsClaim, "..") {
		c.say("Auth.OIDC.GroupsClaim", "%q: want names with single dots between them", a.GroupsClaim)
	}
}

func (h login) checkLDAP(c *checker) {
	d := h.Auth.LDAP
	u, err := url.Parse(d.Server)
	if err != nil || u.Hostname() == "" || u.Scheme != "ldap" && u.Scheme != "ldaps" {
		c.say("Auth.LDAP.Server", "%q: want ldaps://host, or ldap://host for StartTLS", d.Server)
	} else if _, _, _, err := splitServer(d.Server); err != nil {
		c.say("Auth.LDAP.Server", "%v", err)
	}
	if len(d.BindDN) == 0 && !d.LookupDN {
		c.say("Auth.LDAP.BindDN", "missing: a template such as uid={username},ou=people,dc=lab,dc=example, or LookupDN")
	}
	for _, dn := range d.BindDN {
		if !strings.Contains(dn, "{username}") {
			c.say("Auth.LDAP.BindDN", "%q has no {username}: all users would be the same", dn)
		} else if rest := strings.ReplaceAll(dn, "{username}", ""); strings.ContainsAny(rest, "{}") {
			c.say("Auth.LDAP.BindDN", "%q: only {username} is expanded", dn)
		}
	}
	if d.LookupDN && d.SearchBase == "" {
		c.say("Auth.LDAP.SearchBase", "missing: where users are searched for")
	}
	if d.SearchUser != "" && h.Secrets.Search.IsZero() {
		c.say("Secrets.Search", "missing: the password of %s", d.SearchUser)
	}
}

// Warnings lists what is allowed, but should be known before it is used.
func (h Hub) Warnings() []string {
	var w []string
	switch a := h.Auth; a.Kind {
	case spec.AuthDummy:
		w = append(w, "the hub's logins are for a lab only: everyone has the same password and can log in as any user")
	case spec.AuthNative:
		if a.Native != nil && a.Native.OpenSignup {
			w = append(w, "anyone who reaches the hub can sign up and use it (Auth.OpenSignup)")
		}
		if len(a.Admins) > 0 {
			w = append(w, "the first to sign up under the name of an admin becomes that admin: sign up now (admins: "+strings.Join(a.Admins, ", ")+")")
		}
	}
	if !strings.HasPrefix(h.URL(), "https:") && h.Auth.Kind != spec.AuthDummy {
		w = append(w, "passwords are sent unencrypted: the hub has no TLS")
	}
	if !isOn(h.Isolate) {
		w = append(w, "notebooks and hub reach everything in the network, and are reached: network policies are off")
	}
	if !isOn(h.Cull.Enabled) {
		w = append(w, "idle servers keep their GPUs: culling is off")
	}
	for _, p := range h.Profiles {
		if size := h.shm(p); size > 0 && p.Memory.Limit > 0 && 2*size > Bytes(p.Memory.Limit) {
			w = append(w, "profile "+p.Name+": /dev/shm may fill "+size.String()+" of the "+Bytes(p.Memory.Limit).String()+" that a server may use")
		}
		if name, tag := splitImage(p.Image); tag == "latest" || strings.HasSuffix(name, "@") {
			w = append(w, "profile "+p.Name+": image "+p.Image+" changes over time: pin a version")
		}
	}
	return w
}
