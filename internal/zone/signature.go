package zone

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// signer signs requests with an access key of AWS, version 4:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
type signer struct{ accessKey, secret, region, service string }

func (s signer) sign(req *http.Request, body []byte, now time.Time) {
	at := now.UTC().Format("20060102T150405Z")
	req.Header.Set("X-Amz-Date", at)
	const signed = "host;x-amz-date"
	request := strings.Join([]string{
		req.Method, req.URL.EscapedPath(), strings.ReplaceAll(req.URL.Query().Encode(), "+", "%20"),
		"host:" + req.URL.Host, "x-amz-date:" + at, "", signed, digest(body),
	}, "\n")
	scope := strings.Join([]string{at[:8], s.region, s.service, "aws4_request"}, "/")
	key := []byte("AWS4" + s.secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	signature := mac(key, strings.Join([]string{"AWS4-HMAC-SHA256", at, scope, digest([]byte(request))}, "\n"))
	req.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%x", s.accessKey, scope, signed, signature))
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}
