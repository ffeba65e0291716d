package addon

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/bcrypt"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/secret"
)

// Costs of bcrypt hashes that Dex takes (server/server.go, checkCost).
const minCost, maxCost = 10, 16

// variable has a client's secret, for Dex.
func (c client) variable() string { return "CLIENT_" + strings.ToUpper(c.id) }

// config is Dex's configuration (cmd/dex/config.go at v2.45.1).
func (l Login) config(s *Site) (secret.Value, error) {
	people, err := l.passwords(s)
	sources, err2 := l.connectors(s)
	if err := errors.Join(err, err2); err != nil {
		return secret.Value{}, err
	}
	var clients []any
	for _, c := range loginClients(l.Platform, s) {
		clients = append(clients, values{"id": c.id, "name": c.title, "secretEnv": c.variable(), "redirectURIs": []any{c.redirect}})
	}
	if len(l.ClusterRoles) > 0 {
		clients = append(clients, values{"id": spec.LoginKubectl, "name": "kubectl", "public": true, "redirectURIs": list(kubeloginCallbacks())})
	}
	config := values{
		"issuer":    l.Platform.Issuer().URL,
		"storage":   values{"type": "kubernetes", "config": values{"inCluster": true}},
		"web":       values{"http": fmt.Sprintf("0.0.0.0:%d", dexPort)},
		"telemetry": values{"http": fmt.Sprintf("0.0.0.0:%d", dexHealth)},
		"expiry": values{"idTokens": spec.LoginToken.String(),
			// A page of the chat asks for several things at once, each with the token of before.
			"refreshTokens": values{"validIfNotUsedFor": "168h", "absoluteLifetime": "720h", "reuseInterval": "10s"}},
		"oauth2":        values{"skipApprovalScreen": true}, // all clients are the cluster's own
		"staticClients": clients,
		"connectors":    sources,
	}
	if len(people) > 0 {
		config["enablePasswordDB"], config["staticPasswords"] = true, people
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return secret.Value{}, fmt.Errorf("login: %w", err)
	}
	return secret.New(string(text)), nil
}

func (l Login) passwords(s *Site) (out []any, err error) {
	var errs []error
	for _, p := range l.People {
		at := "login.people." + p.Name + ".hash"
		hash, err := s.Secret(at, p.Hash)
		if err == nil && !s.Unread {
			err = checkHash(at, hash)
		}
		errs = append(errs, err)
		// The ID is what a person's refresh tokens belong to, together with the address.
		out = append(out, values{"email": p.Email, "hash": hash.Reveal(), "username": p.Name, "preferredUsername": p.Name, "userID": p.Name, "groups": list(p.Groups)})
	}
	return out, errors.Join(errs...)
}

func checkHash(at string, hash secret.Value) error {
	const cure = "store what htpasswd -nBC 12 NAME prints after the colon"
	switch cost, err := bcrypt.Cost([]byte(hash.Reveal())); {
	case err != nil:
		return fmt.Errorf("%s: the secret is not a bcrypt hash: %s", at, cure)
	case cost < minCost || cost > maxCost:
		return fmt.Errorf("%s: the hash has cost %d, and Dex takes %d to %d: %s", at, cost, minCost, maxCost, cure)
	}
	return nil
}

// connectors are the sources of people beside the file (connector/*/*.go at v2.45.1).
func (l Login) connectors(s *Site) (out []any, err error) {
	var errs []error
	add := func(kind, title string, config values, err error) {
		errs = append(errs, err)
		out = append(out, values{"type": kind, "id": kind, "name": title, "config": config})
	}
	if g := l.GitHub; g != nil {
		hidden, err := s.Secret("login.github.clientSecret", g.ClientSecret)
		add("github", "GitHub", values{"clientID": g.ClientID, "clientSecret": hidden.Reveal(), "redirectURI": l.Platform.Issuer().URL + "/callback",
			"loadAllGroups": true, "teamNameField": "slug"}, err)
	}
	if o := l.OIDC; o != nil {
		hidden, err := s.Secret("login.oidc.clientSecret", o.ClientSecret)
		ca, err2 := File("login.oidc.ca", o.CA)
		config := values{"issuer": o.Issuer, "clientID": o.ClientID, "clientSecret": hidden.Reveal(), "redirectURI": l.Platform.Issuer().URL + "/callback",
			"scopes": list(o.Scopes), "getUserInfo": true,
			// Rights come from groups, and names from their own claim: nothing depends on a verified address.
			"insecureEnableGroups": true, "insecureSkipEmailVerified": true,
			"userNameKey":  o.NameClaim,
			"claimMapping": values{"preferred_username": o.NameClaim, "groups": o.GroupsClaim}, "overrideClaimMapping": true}
		if len(ca) > 0 {
			config["rootCAs"] = []any{string(ca)}
		}
		add("oidc", "OpenID Connect", config, errors.Join(err, err2))
	}
	if d := l.LDAP; d != nil {
		config, err := ldap{d}.config(s)
		add("ldap", "LDAP", config, err)
	}
	return out, errors.Join(errs...)
}

type ldap struct{ *spec.LoginLDAP }

func (d ldap) config(s *Site) (values, error) {
	host, startTLS, err := ldapHost(d.Server)
	password, err2 := s.Secret("login.ldap.searchPassword", d.SearchPassword)
	ca, err3 := File("login.ldap.ca", d.CA)
	identity := "DN"
	if d.MemberAttribute == "memberUid" {
		identity = d.UserAttribute
	}
	out := values{
		"host": host, "startTLS": startTLS, "bindDN": d.SearchUser, "bindPW": password.Reveal(), "usernamePrompt": "Name",
		"userSearch": values{"baseDN": d.SearchBase, "username": d.UserAttribute, "idAttr": d.UserAttribute, "emailAttr": "mail", "nameAttr": "cn",
			"preferredUsernameAttr": d.UserAttribute},
		"groupSearch": values{"baseDN": cmp.Or(d.GroupBase, d.SearchBase), "nameAttr": "cn", "userMatchers": []any{values{"userAttr": identity, "groupAttr": d.MemberAttribute}}},
	}
	if len(ca) > 0 {
		out["rootCAData"] = base64.StdEncoding.EncodeToString(ca)
	}
	return out, errors.Join(err, err2, err3)
}

func list(in []string) []any {
	out := make([]any, len(in))
	for i, s := range in {
		out[i] = s
	}
	return out
}
