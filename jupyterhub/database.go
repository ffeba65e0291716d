package jupyterhub

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/secret"
)

func (h Hub) database() map[string]any {
	if h.Database.Kind == Postgres {
		location, _, _ := splitDatabase(h.Secrets.Database)
		if name := h.Database.Name; name != "" { // is that of its owner, too
			location = "postgresql+psycopg2://" + name + "@" + name + "-rw/" + name
		}
		// Without upgrade the hub refuses its own database after an update.
		return map[string]any{"type": "postgres", "url": location, "upgrade": true}
	}
	pvc := map[string]any{"annotations": map[string]any{"helm.sh/resource-policy": "keep"}}
	if h.Database.Class != "" {
		pvc["storageClassName"] = h.Database.Class
	}
	if h.Database.Size != 0 {
		pvc["storage"] = Bytes(h.Database.Size).String()
	}
	return map[string]any{"pvc": pvc}
}

// databaseEnv is how the hub knows the password of a database of CloudNativePG's, which makes it. PostgreSQL's library reads it there
// if neither the address nor hub.db.password has one (the chart's own configuration of the hub sets it in the same way).
func databaseEnv(d spec.HubDatabase) map[string]any {
	if d.Kind != Postgres || d.Name == "" {
		return map[string]any{}
	}
	return map[string]any{"PGPASSWORD": map[string]any{"valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": d.Name + "-app", "key": "password"}}}}
}

// splitDatabase removes the password from a database's URL: the rest goes into values.
func splitDatabase(address secret.Value) (location string, password secret.Value, err error) {
	u, err := url.Parse(address.Reveal())
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") == "" {
		// The error of url.Parse contains the URL, and with it the password.
		return "", password, fmt.Errorf("not an address of a database: want postgresql://user:password@host/name")
	}
	if u.Scheme != "postgresql" && u.Scheme != "postgres" && u.Scheme != "postgresql+psycopg2" {
		return "", password, fmt.Errorf("scheme %q: want postgresql://user:password@host/name", u.Scheme)
	}
	if u.Query().Has("password") {
		return "", password, fmt.Errorf("the password is among the parameters: write it before the host, as postgresql://user:password@host/name")
	}
	// The image has psycopg2; SQLAlchemy refuses the scheme postgres.
	u.Scheme = "postgresql+psycopg2"
	if p, ok := u.User.Password(); ok {
		password = secret.New(p)
		u.User = url.User(u.User.Username())
	}
	return u.String(), password, nil
}
