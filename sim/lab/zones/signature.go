package zones

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Signature is that of a request to AWS, version 4: of the headers that its Authorization names, in the scope that it names.
// Source: docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
func Signature(r *http.Request, body []byte, secret string) (string, error) {
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	parts := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		parts[name] = value
	}
	_, scope, _ := strings.Cut(parts["Credential"], "/")
	names := strings.Split(parts["SignedHeaders"], ";")
	if !ok || strings.Count(scope, "/") != 3 || !slices.Contains(names, "host") {
		return "", errors.New("Authorization header requires 'Credential' parameter, 'SignedHeaders' parameter and 'host'") //nolint:staticcheck,revive // a header's name
	}
	var headers strings.Builder
	for _, name := range names {
		value := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		headers.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	query := strings.ReplaceAll(r.URL.Query().Encode(), "+", "%20")
	request := strings.Join([]string{r.Method, r.URL.EscapedPath(), query, headers.String(), parts["SignedHeaders"], hexSum(body)}, "\n")
	key := []byte("AWS4" + secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = sum(key, part)
	}
	return hex.EncodeToString(sum(key, strings.Join([]string{"AWS4-HMAC-SHA256", r.Header.Get("X-Amz-Date"), scope, hexSum([]byte(request))}, "\n"))), nil
}

func hexSum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

func sum(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}
