package login

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const keyID = "lab"

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, code, text string) {
	reply(w, status, map[string]string{"error": code, "error_description": text})
}

func (d *dex) discovery(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{
		"issuer": d.Issuer, "authorization_endpoint": d.Issuer + "/auth", "token_endpoint": d.Issuer + "/token", "jwks_uri": d.Issuer + "/keys",
		"userinfo_endpoint": d.Issuer + "/userinfo", "grant_types_supported": []string{"authorization_code", "refresh_token"}, "response_types_supported": []string{"code"},
		"subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"}, "code_challenge_methods_supported": []string{"S256"},
		"scopes_supported": []string{"openid", "email", "groups", "profile", "offline_access"}, "token_endpoint_auth_methods_supported": []string{"client_secret_basic", "client_secret_post"},
		"claims_supported": []string{"iss", "sub", "aud", "iat", "exp", "email", "email_verified", "name", "preferred_username", "groups"},
	})
}

func (d *dex) publicKeys(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{"keys": []any{map[string]string{
		"use": "sig", "kty": "RSA", "kid": keyID, "alg": "RS256", "n": encode(d.key.N.Bytes()), "e": encode(big.NewInt(int64(d.key.E)).Bytes())}}})
}

// token changes a code, or a refresh token, for tokens.
func (d *dex) token(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	} else if plain, err := url.QueryUnescape(secret); err == nil {
		secret = plain
	}
	i := slices.IndexFunc(d.Clients, func(c program) bool { return c.ID == id })
	if i < 0 || !d.Clients[i].Public && d.Clients[i].Secret == "" || subtle.ConstantTimeCompare([]byte(d.Clients[i].Secret), []byte(secret)) == 0 {
		refuse(w, http.StatusUnauthorized, "invalid_client", "Invalid client credentials.")
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var g grant
	var ok bool
	switch code, again := r.FormValue("code"), r.FormValue("refresh_token"); r.FormValue("grant_type") {
	case "authorization_code":
		g, ok = d.codes[code]
		delete(d.codes, code)
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		ok = ok && g.redirect == r.FormValue("redirect_uri") && (g.challenge == "" || g.challenge == encode(sum[:]))
	case "refresh_token":
		g, ok = d.refresh[again]
		if ok && g.Client == id && !d.still(&g) {
			refuse(w, http.StatusInternalServerError, "server_error", "") // as the real one (server/refreshhandlers.go)
			return
		}
		delete(d.refresh, again)
	default:
		refuse(w, http.StatusBadRequest, "unsupported_grant_type", "")
		return
	}
	if !ok || g.Client != id {
		refuse(w, http.StatusBadRequest, "invalid_grant", "Invalid or expired code parameter.")
		return
	}
	d.issue(w, g)
}

// still asks the source of a grant whether it still knows the person, and with which groups.
func (d *dex) still(g *grant) bool {
	if g.Source != local {
		return slices.ContainsFunc(d.Connectors, func(s source) bool { return s.ID == g.Source })
	}
	p := d.person(g.Email)
	if p == nil || p.ID != g.ID {
		return false
	}
	g.Name, g.Groups = p.Name, p.Groups
	return true
}

func (d *dex) issue(w http.ResponseWriter, g grant) {
	now := d.Now()
	subject, _ := json.Marshal([]string{g.ID, g.Source})
	claims := map[string]any{"iss": d.Issuer, "sub": encode(subject), "aud": g.Client, "iat": now.Unix(), "exp": now.Add(d.lives).Unix()}
	if g.Nonce != "" {
		claims["nonce"] = g.Nonce
	}
	for scope, its := range map[string]map[string]any{
		"email": {"email": g.Email, "email_verified": true}, "profile": {"name": g.Name, "preferred_username": g.Name}, "groups": {"groups": g.Groups},
	} {
		for key, value := range its {
			if slices.Contains(g.Scopes, scope) {
				claims[key] = value
			}
		}
	}
	text, err := d.sign(claims)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "server_error", "")
		return
	}
	answer := map[string]any{"access_token": text, "id_token": text, "token_type": "bearer", "expires_in": int(d.lives.Seconds())}
	if slices.Contains(g.Scopes, "offline_access") {
		again := rand.Text()
		d.refresh[again], answer["refresh_token"] = g, again
		d.save()
	}
	reply(w, http.StatusOK, answer)
}

func (d *dex) sign(claims map[string]any) (string, error) {
	head, _ := json.Marshal(map[string]string{"alg": "RS256", "kid": keyID})
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	text := encode(head) + "." + encode(body)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, d.key, crypto.SHA256, sum[:])
	return text + "." + encode(signature), err
}

// verify returns the claims of a token that is Dex's own and valid.
func (d *dex) verify(token string) (json.RawMessage, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("malformed jwt")
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(&d.key.PublicKey, crypto.SHA256, sum[:], signature); err != nil {
		return nil, err
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, err
	}
	var claims struct {
		Expires int64 `json:"exp"`
	}
	if err := json.Unmarshal(body, &claims); err != nil {
		return nil, err
	}
	if d.Now().After(time.Unix(claims.Expires, 0)) {
		return nil, errors.New("token is expired")
	}
	return body, nil
}

func (d *dex) userinfo(w http.ResponseWriter, r *http.Request) {
	claims, err := d.verify(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if err != nil {
		refuse(w, http.StatusForbidden, "access_denied", "Invalid bearer token.")
		return
	}
	reply(w, http.StatusOK, claims)
}
