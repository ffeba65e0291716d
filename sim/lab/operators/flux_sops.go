package operators

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sopsage "github.com/getsops/sops/v3/age"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/sim/lab/internal/object"
)

// sopsKeys decrypt what SOPS 3.13 has encrypted for keys of age.
type sopsKeys struct{ identities sopsage.ParsedIdentities }

// importKeys reads the keys of a decryption (kustomize-controller v1.9.4, internal/decryptor/decryptor.go, ImportKeys).
func (a *applier) importKeys(ctx context.Context, k *kustomizev1.Kustomization) (*sopsKeys, error) {
	d := k.Spec.Decryption
	if d == nil {
		return nil, nil
	}
	if d.Provider != "sops" || d.SecretRef == nil {
		return nil, errors.New("the Flux of the lab does not play this: a decryption without provider sops and a Secret")
	}
	name := k.Namespace + "/" + d.SecretRef.Name
	s, err := a.Client.CoreV1().Secrets(k.Namespace).Get(ctx, d.SecretRef.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	var keys sopsKeys
	for key, value := range s.Data {
		if !strings.HasSuffix(key, ".agekey") {
			return nil, errors.New("the Flux of the lab does not play this: " + key + " in decryption Secret " + name)
		}
		if err := keys.identities.Import(string(value)); err != nil {
			return nil, fmt.Errorf("failed to import '%s' data from %s decryption Secret '%s': %w", key, d.Provider, name, err)
		}
	}
	return &keys, nil
}

// sopsMetadata is what of SOPS' notes beside the values is played: one group of age keys, and names of the encrypted fields.
type sopsMetadata struct {
	Age []struct {
		Recipient string `json:"recipient"`
		Enc       string `json:"enc"`
	} `json:"age"`
	LastModified     string `json:"lastmodified"`
	MAC              string `json:"mac"`
	EncryptedRegex   string `json:"encrypted_regex"`
	MACOnlyEncrypted bool   `json:"mac_only_encrypted"`
	Version          string `json:"version"`
}

// decryptAll decrypts what kustomize has built (DecryptResource). As there, nobody checks the authentication code: kustomize
// adds to what was encrypted.
func (s *sopsKeys) decryptAll(objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		if object.Text(o, "sops", "mac") == "" || decryptsNot(o) {
			continue
		}
		if err := s.decrypt(o); err != nil {
			kind := o.GroupVersionKind()
			group := kind.Group
			if group == "" {
				group = "[noGrp]" // as kustomize writes it
			}
			return fmt.Errorf("decryption failed for '%s.%s.%s/%s': failed to decrypt and format '%s/%s' %s data: %w",
				kind.Kind, kind.Version, group, o.GetName(), o.GetNamespace(), o.GetName(), kind.Kind, err)
		}
	}
	return nil
}

// refuseEncrypted refuses Secrets that are still encrypted (kustomization_controller.go, apply).
func refuseEncrypted(objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		if _, is := o.Object["sops"]; is && o.GetKind() == "Secret" && o.GetAPIVersion() == "v1" && !decryptsNot(o) {
			return fmt.Errorf("%s is SOPS encrypted, configuring decryption is required for this secret to be reconciled", fluxName(o))
		}
	}
	return nil
}

// fluxName names an object as Flux does (fluxcd/pkg ssa/utils, FmtUnstructured).
func fluxName(o *unstructured.Unstructured) string {
	return strings.Join(strings.Fields(o.GetKind()+" "+o.GetNamespace()+" "+o.GetName()), "/")
}

func decryptsNot(o *unstructured.Unstructured) bool {
	return strings.EqualFold(o.GetAnnotations()["kustomize.toolkit.fluxcd.io/decrypt"], "disabled")
}

func (s *sopsKeys) decrypt(o *unstructured.Unstructured) error {
	var notes sopsMetadata
	its, _, _ := unstructured.NestedMap(o.Object, "sops")
	for key, value := range its {
		if list, is := value.([]any); value == nil || is && len(list) == 0 {
			delete(its, key) // older versions of SOPS write the kinds of keys that there are none of
		}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(its, &notes, true); err != nil {
		return fmt.Errorf("the Flux of the lab does not play this of SOPS: %w", err)
	}
	fields, err := regexp.Compile(notes.EncryptedRegex)
	if err != nil || notes.EncryptedRegex == "" {
		return errors.New("the Flux of the lab does not play this of SOPS: encryption without encrypted_regex")
	}
	key, err := s.dataKey(notes)
	if err != nil {
		return fmt.Errorf("cannot get sops data key: %w", err)
	}
	delete(o.Object, "sops")
	plain, err := decrypted(o.Object, nil, key, fields)
	if err != nil {
		return fmt.Errorf("error decrypting sops tree: Error walking tree: %w", err)
	}
	o.Object = plain.(map[string]any)
	return nil
}

// dataKey opens the key of the values with the first key that does; the words are SOPS' (usererrors.go).
func (s *sopsKeys) dataKey(notes sopsMetadata) ([]byte, error) {
	var said []string
	for _, one := range notes.Age {
		master := sopsage.MasterKey{Recipient: one.Recipient, EncryptedKey: one.Enc}
		err := errors.New("failed to load age identities")
		if len(s.identities) > 0 { // else it would look for those of the user who runs the lab
			s.identities.ApplyToMasterKey(&master)
			var key []byte
			if key, err = master.Decrypt(); err == nil {
				return key, nil
			}
		}
		said = append(said, "  "+one.Recipient+": FAILED\n    - "+strings.TrimLeft(folded("| "+err.Error(), "      | "), " "))
	}
	const why = "Recovery failed because no master key was able to decrypt the file. In\norder for SOPS to recover the file, at least one key has to be successful,\nbut none were."
	return nil, fmt.Errorf("Failed to get the data key required to decrypt the SOPS file.\n\nGroup 0: FAILED\n%s\n\n%s", strings.Join(said, "\n\n"), why) //nolint:staticcheck // SOPS begins so
}

// folded breaks a text into lines as SOPS does, at 60 characters; all lines but the first have a beginning.
func folded(text, begin string) string {
	const width = 60 + len("| ")
	var out strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case at+1+len(word) > width:
			out.WriteString("\n" + begin)
			at = len("| ")
		default:
			out.WriteString(" ")
			at++
		}
		out.WriteString(word)
		at += len(word)
	}
	return out.String()
}

// decrypted is a value with its encrypted fields in plain text: those below a name that SOPS was told (sops.go, Tree.Decrypt).
func decrypted(value any, at []string, key []byte, fields *regexp.Regexp) (any, error) {
	switch v := value.(type) {
	case map[string]any:
		for name, one := range v {
			plain, err := decrypted(one, append(at[:len(at):len(at)], name), key, fields)
			if err != nil {
				return nil, err
			}
			v[name] = plain
		}
	case []any:
		for i, one := range v {
			plain, err := decrypted(one, at, key, fields)
			if err != nil {
				return nil, err
			}
			v[i] = plain
		}
	case nil:
	default:
		for _, name := range at {
			if !fields.MatchString(name) {
				continue
			}
			text, is := value.(string)
			if !is {
				return nil, fmt.Errorf("Expected encrypted value as string, but got %T", value) //nolint:staticcheck // SOPS begins so
			}
			plain, err := unsealed(text, key, strings.Join(at, ":")+":")
			if err != nil {
				return nil, fmt.Errorf("Could not decrypt value: %w", err) //nolint:staticcheck // likewise
			}
			return plain, nil
		}
	}
	return value, nil
}

// unsealed decrypts one value, which is bound to its place (SOPS' aes/cipher.go).
func unsealed(text string, key []byte, place string) (any, error) {
	if text == "" {
		return "", nil
	}
	parts := regexp.MustCompile(`^ENC\[AES256_GCM,data:(.+),iv:(.+),tag:(.+),type:(.+)\]`).FindStringSubmatch(text)
	if parts == nil {
		return nil, fmt.Errorf("Input string %s does not match sops' data format", text) //nolint:staticcheck // SOPS begins so
	}
	var raw [3][]byte
	for i := range raw {
		var err error
		if raw[i], err = base64.StdEncoding.DecodeString(parts[i+1]); err != nil {
			return nil, fmt.Errorf("Error base64-decoding %s: %w", [...]string{"data", "iv", "tag"}[i], err) //nolint:staticcheck // likewise
		}
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	sealer, err := cipher.NewGCMWithNonceSize(block, len(raw[1]))
	if err != nil {
		return nil, err
	}
	plain, err := sealer.Open(nil, raw[1], append(raw[0], raw[2]...), []byte(place))
	if err != nil {
		return nil, fmt.Errorf("Could not decrypt with AES_GCM: %w", err) //nolint:staticcheck // likewise
	}
	switch parts[4] {
	case "str":
		return string(plain), nil
	case "int":
		return strconv.ParseInt(string(plain), 10, 64)
	case "bool":
		return strconv.ParseBool(string(plain))
	}
	return nil, errors.New("the Flux of the lab does not play this of SOPS: a value of type " + parts[4])
}
