package addon_test

import (
	"crypto/md5" //nolint:gosec // an ETag is one
	"encoding/pem"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// bucket is an S3 service on loopback with one bucket, as far as boto3 uses it for Barman: it lists, reads, writes at
// once and in parts, and deletes. Who has another key or region is refused; signatures are not computed.
type bucket struct {
	*httptest.Server
	name, scope string // scope: KEY and REGION of the signature

	mu      sync.Mutex
	objects map[string][]byte
	parts   map[string]map[int][]byte // by upload
}

func newBucket(t *testing.T, name, key, region string) *bucket {
	t.Helper()
	b := &bucket{name: name, scope: key + " " + region, objects: map[string][]byte{}, parts: map[string]map[int][]byte{}}
	b.Server = httptest.NewTLSServer(b)
	t.Cleanup(b.Close)
	return b
}

// ca is the authority of its certificate.
func (b *bucket) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.Certificate().Raw}))
}

// change rewrites an object.
func (b *bucket) change(t *testing.T, key string, change func(string) string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Contains(t, b.objects, key)
	b.objects[key] = []byte(change(string(b.objects[key])))
}

// keys are those of the objects below a folder, in order.
func (b *bucket) keys(prefix string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	for key := range b.objects {
		if strings.HasPrefix(key, prefix) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	// AWS4-HMAC-SHA256 Credential=KEY/DATE/REGION/s3/aws4_request, …
	_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	scope := strings.Split(credential, "/")
	switch {
	case len(scope) < 4 || scope[0]+" "+scope[2] != b.scope || scope[3] != "s3":
		refuse(w, http.StatusForbidden, "InvalidAccessKeyId")
	case name != b.name:
		refuse(w, http.StatusNotFound, "NoSuchBucket")
	default:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			refuse(w, http.StatusBadRequest, "IncompleteBody")
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.answer(w, r, key, body)
	}
}

func (b *bucket) answer(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	query := r.URL.Query()
	upload := query.Get("uploadId")
	switch {
	case r.Method == http.MethodHead && key == "":
	case r.Method == http.MethodGet && key == "":
		b.list(w, query.Get("prefix"), query.Get("delimiter"))
	case r.Method == http.MethodPost && query.Has("delete"):
		b.remove(w, body)
	case r.Method == http.MethodPost && query.Has("uploads"):
		id := strconv.Itoa(len(b.parts) + 1)
		b.parts[id] = map[int][]byte{}
		say(w, "InitiateMultipartUploadResult", fmt.Sprintf("<UploadId>%s</UploadId>", id))
	case r.Method == http.MethodPut && b.parts[upload] != nil:
		n, _ := strconv.Atoi(query.Get("partNumber"))
		b.parts[upload][n] = body
		w.Header().Set("ETag", tag(body))
	case r.Method == http.MethodPost && b.parts[upload] != nil:
		b.objects[key] = nil
		for n := 1; n <= len(b.parts[upload]); n++ {
			b.objects[key] = append(b.objects[key], b.parts[upload][n]...)
		}
		say(w, "CompleteMultipartUploadResult", "<ETag>"+tag(b.objects[key])+"</ETag>")
	case r.Method == http.MethodPut && len(query) == 0:
		b.objects[key] = body
		w.Header().Set("ETag", tag(body))
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		object, there := b.objects[key]
		if !there {
			refuse(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		w.Header().Set("ETag", tag(object))
		w.Header().Set("Content-Length", strconv.Itoa(len(object)))
		_, _ = w.Write(object)
	default:
		refuse(w, http.StatusNotImplemented, "NotImplemented")
	}
}

// list lists keys, and up to the delimiter folders.
func (b *bucket) list(w http.ResponseWriter, prefix, delimiter string) {
	var folders, out []string
	for key, object := range b.objects {
		rest, below := strings.CutPrefix(key, prefix)
		if !below {
			continue
		}
		if at := strings.Index(rest, delimiter); delimiter != "" && at >= 0 {
			folders = append(folders, prefix+rest[:at+1])
			continue
		}
		out = append(out, fmt.Sprintf("<Contents><Key>%s</Key><Size>%d</Size><ETag>%s</ETag><LastModified>2026-11-30T00:00:00.000Z</LastModified></Contents>", key, len(object), tag(object)))
	}
	slices.Sort(folders)
	slices.Sort(out)
	for _, folder := range slices.Compact(folders) {
		out = append(out, "<CommonPrefixes><Prefix>"+folder+"</Prefix></CommonPrefixes>")
	}
	say(w, "ListBucketResult", "<IsTruncated>false</IsTruncated>"+strings.Join(out, ""))
}

func (b *bucket) remove(w http.ResponseWriter, body []byte) {
	var which struct {
		Object []struct{ Key string }
	}
	if err := xml.Unmarshal(body, &which); err != nil {
		refuse(w, http.StatusBadRequest, "MalformedXML")
		return
	}
	for _, o := range which.Object {
		delete(b.objects, o.Key)
	}
	say(w, "DeleteResult", "")
}

func tag(object []byte) string { return fmt.Sprintf("%q", fmt.Sprintf("%x", md5.Sum(object))) } //nolint:gosec // an ETag

func say(w http.ResponseWriter, root, inner string) {
	w.Header().Set("Content-Type", "application/xml")
	_, _ = fmt.Fprintf(w, "%s<%s>%s</%s>", xml.Header, root, inner, root)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "%s<Error><Code>%s</Code></Error>", xml.Header, code)
}
