package jupyterhub

import (
	"encoding/pem"
	"net/url"
	"slices"
	"strings"
)

func (h login) checkAuth(c *checker) {
	a := h.Auth
	if _, ok := classes[a.Kind]; !ok {
		c.say("Auth.Kind", "%q: want %s, %s, %s, %s or %s", a.Kind, Dummy, Native, OIDC, LDAP, GitHub)
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
	case Dummy:
		if p := a.Password.Reveal(); p != "" && len(p) < 8 {
			c.say("Auth.Password", "shorter than 8 characters, which the hub refuses: choose a longer one, or none to generate one")
		}
	case OIDC:
		h.checkOIDC(c)
	case GitHub:
		h.checkClient(c)
	case LDAP:
		h.checkLDAP(c)
	}
	if !a.allowsAnyone() {
		c.say("Auth", "nobody could log in: set AllowAll, Users%s", map[string]string{
			OIDC: ", AllowedGroups or AdminGroups", LDAP: " or Directory.Groups", GitHub: " or Organizations", Dummy: "",
		}[a.Kind])
	}
	c.bundle("CA", h.CA)
	c.bundle("Auth.CA", a.CA)
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
func (a Auth) allowsAnyone() bool {
	if a.allowsAll() || len(a.Users) > 0 {
		return true
	}
	switch a.Kind {
	case OIDC:
		return len(a.AllowedGroups)+len(a.AdminGroups) > 0
	case LDAP:
		return len(a.Directory.Groups) > 0
	case GitHub:
		return len(a.Organizations) > 0
	}
	return false
}

func (h login) checkClient(c *checker) {
	c.need("Auth.ClientID", h.Auth.ClientID, "the hub's name at the provider")
	c.needSecret("Auth.ClientSecret", h.Auth.ClientSecret, "the hub's secret at the provider")
	if len(h.Auth.Organizations) > 0 && slices.Contains(h.Auth.Organizations, "") {
		c.say("Auth.Organizations", "an organization without a name")
	}
}

func (h login) checkOIDC(c *checker) {
	a := h.Auth
	h.checkClient(c)
	for _, e := range [][2]string{{"Authorize", a.Endpoints.Authorize}, {"Token", a.Endpoints.Token}, {"Userinfo", a.Endpoints.Userinfo}} {
		if u, err := url.Parse(e[1]); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			c.say("Auth.Endpoints."+e[0], "%q is not a URL: the issuer publishes it (Discover)", e[1])
		}
	}
	if len(a.AllowedGroups)+len(a.AdminGroups) > 0 && a.GroupsClaim == "" {
		c.say("Auth.GroupsClaim", "missing: the file names groups, and this is the claim in which the provider lists them, e.g. groups")
	}
	if len(a.Scopes) > 0 && !slices.Contains(a.Scopes, "openid") {
		c.say("Auth.Scopes", "openid is not among them: without it this is not OpenID Connect")
	}
	if strings.HasPrefix(a.GroupsClaim, ".") || strings.HasSuffix(a.GroupsClaim, ".") || strings.Contains(a.GroupsClaim, "..") {
		c.say("Auth.GroupsClaim", "%q: want names with single dots between them", a.GroupsClaim)
	}
}

func (h login) checkLDAP(c *checker) {
	d := h.Auth.Directory
	u, err := url.Parse(d.Server)
	if err != nil || u.Hostname() == "" || u.Scheme != "ldap" && u.Scheme != "ldaps" {
		c.say("Auth.Directory.Server", "%q: want ldaps://host, or ldap://host for StartTLS", d.Server)
	} else if _, _, _, err := d.server(); err != nil {
		c.say("Auth.Directory.Server", "%v", err)
	}
	if len(d.BindDN) == 0 && !d.LookupDN {
		c.say("Auth.Directory.BindDN", "missing: a template such as uid={username},ou=people,dc=lab,dc=example, or LookupDN")
	}
	for _, dn := range d.BindDN {
		if !strings.Contains(dn, "{username}") {
			c.say("Auth.Directory.BindDN", "%q has no {username}: all users would be the same", dn)
		} else if rest := strings.ReplaceAll(dn, "{username}", ""); strings.ContainsAny(rest, "{}") {
			c.say("Auth.Directory.BindDN", "%q: only {username} is expanded", dn)
		}
	}
	if d.LookupDN && d.SearchBase == "" {
		c.say("Auth.Directory.SearchBase", "missing: where users are searched for")
	}
	if d.SearchUser != "" && d.SearchPass.IsZero() {
		c.say("Auth.Directory.SearchPass", "missing: the password of %s", d.SearchUser)
	}
}

// Warnings lists what is allowed, but should be known before it is used.
func (h Hub) Warnings() []string {
	var w []string
	switch a := h.Auth; a.Kind {
	case Dummy:
		w = append(w, "the hub's logins are for a lab only: everyone has the same password and can log in as any user")
	case Native:
		if a.OpenSignup {
			w = append(w, "anyone who reaches the hub can sign up and use it (Auth.OpenSignup)")
		}
		if len(a.Admins) > 0 {
			w = append(w, "the first to sign up under the name of an admin becomes that admin: sign up now (admins: "+strings.Join(a.Admins, ", ")+")")
		}
	}
	if !strings.HasPrefix(h.URL(), "https:") && h.Auth.Kind != Dummy {
		w = append(w, "passwords are sent unencrypted: the hub has no TLS")
	}
	if h.Exposed {
		w = append(w, "notebooks and hub reach everything in the network, and are reached: network policies are off")
	}
	if h.Cull.Off {
		w = append(w, "idle servers keep their GPUs: culling is off")
	}
	for _, p := range h.Profiles {
		if size := h.shm(p); size > 0 && p.MemLimit > 0 && 2*size > p.MemLimit {
			w = append(w, "profile "+p.Name+": /dev/shm may fill "+size.String()+" of the "+p.MemLimit.String()+" that a server may use")
		}
		if name, tag := splitImage(p.Image); tag == "latest" || strings.HasSuffix(name, "@") {
			w = append(w, "profile "+p.Name+": image "+p.Image+" changes over time: pin a version")
		}
	}
	return w
}
