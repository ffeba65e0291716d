package login

import (
	"context"
	"crypto/x509"
	"encoding/csv"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"sigs.k8s.io/yaml"
)

// ArgoCD plays who Argo CD 3.4's server says that somebody is, by a token in the header Authorization, and what they
// may do. Its local accounts and its own way to a provider are not simulated.
type ArgoCD struct {
	Config  func(ctx context.Context, name string) (map[string]string, error) // one of its ConfigMaps
	Secrets func(context.Context) (map[string]string, error)                  // NAME:KEY of Secrets with its label
	HTTP    func(*x509.CertPool) *http.Client                                 // reaches the provider by its public name; nil: trusts the system's authorities
	Now     func() time.Time
}

// oidcConfig has the fields that are played (util/settings/settings.go at v3.4.4). The real one ignores others; here they
// are an error, since they would have no effect.
type oidcConfig struct {
	Name     string `json:"name"`
	Issuer   string `json:"issuer"`
	ClientID string `json:"clientID"`
	RootCA   string `json:"rootCA"`
}

func (a *ArgoCD) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		_, _ = w.Write([]byte("ok"))
		return
	}
	params, err := a.Config(r.Context(), "argocd-cmd-params-cm")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if params["server.insecure"] != "true" && r.TLS == nil {
		http.Redirect(w, r, "https://"+r.Host+r.URL.RequestURI(), http.StatusTemporaryRedirect)
		return
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		a.show(w, http.StatusOK, "Argo CD's own password is not simulated.")
		return
	}
	who, err := a.verify(r.Context(), token)
	if err != nil {
		a.show(w, http.StatusUnauthorized, "invalid session: "+err.Error())
		return
	}
	role, err := a.role(r.Context(), who)
	if err != nil {
		a.show(w, http.StatusInternalServerError, err.Error())
		return
	}
	a.show(w, http.StatusOK, fmt.Sprintf("Signed in as %s, whose role is %s.", who.Text("email"), role))
}

// verify takes a token of the provider (VerifyToken in util/session/sessionmanager.go), which it asks for its keys.
func (a *ArgoCD) verify(ctx context.Context, token string) (who Person, err error) {
	cm, err := a.Config(ctx, "argocd-cm")
	if err != nil {
		return who, err
	}
	if cm["oidc.config"] == "" {
		return who, errors.New("SSO is not configured")
	}
	secrets, err := a.Secrets(ctx)
	if err != nil {
		return who, err
	}
	var o oidcConfig
	if err := yaml.UnmarshalStrict([]byte(cm["oidc.config"]), &o); err != nil {
		return who, fmt.Errorf("oidc.config: %w", err)
	}
	for _, at := range []*string{&o.Issuer, &o.ClientID, &o.RootCA} {
		if key, ok := strings.CutPrefix(*at, "$"); ok && secrets[key] != "" {
			*at = strings.TrimSpace(secrets[key])
		}
	}
	var roots *x509.CertPool
	if o.RootCA != "" {
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(o.RootCA)) {
			roots = nil // it proceeds without
		}
	}
	ctx = oidc.ClientContext(ctx, a.HTTP(roots))
	provider, err := oidc.NewProvider(ctx, o.Issuer)
	if err != nil {
		return who, fmt.Errorf("failed to query provider %q: %w", o.Issuer, err)
	}
	its, err := provider.Verifier(&oidc.Config{ClientID: o.ClientID, Now: a.Now}).Verify(ctx, token)
	if err != nil {
		return who, fmt.Errorf("failed to verify the token: %w", err)
	}
	return who, its.Claims(&who.Claims)
}

// role is the best of the roles that the policy gives to groups (server/rbacpolicy/rbacpolicy.go, assets/builtin-policy.csv).
func (a *ArgoCD) role(ctx context.Context, who Person) (string, error) {
	cm, err := a.Config(ctx, "argocd-rbac-cm")
	if err != nil {
		return "", err
	}
	var scopes []string
	if err := yaml.Unmarshal([]byte(cm["scopes"]), &scopes); err != nil || len(scopes) != 1 || cm["policy.default"] != "" {
		return "", errors.New("argocd-rbac-cm: these scopes, or a default role, are not simulated")
	}
	groups := who.Groups(scopes[0])
	have := map[string]bool{}
	for line := range strings.Lines("g, role:admin, role:readonly\ng, admin, role:admin\n" + cm["policy.csv"]) {
		row := csv.NewReader(strings.NewReader(strings.TrimSpace(line)))
		row.TrimLeadingSpace = true
		tokens, err := row.Read()
		if err != nil || len(tokens) != 3 || tokens[0] != "g" {
			return "", fmt.Errorf("invalid RBAC policy: %s", line)
		}
		if slices.Contains(groups, tokens[1]) {
			have[tokens[2]] = true
		}
	}
	switch {
	case have["role:admin"] || slices.Contains(groups, "role:admin"):
		return "admin", nil
	case have["role:readonly"]:
		return "readonly", nil
	}
	return "none", nil
}

func (*ArgoCD) show(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; img-src data:")
	w.WriteHeader(status)
	_ = template.Must(template.New("page").Parse(`<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Argo CD in the lab</title><link rel="icon" href="data:,"></head>
<body><h1>Argo CD in the lab</h1><p>{{.}}</p></body></html>`)).Execute(w, text)
}
