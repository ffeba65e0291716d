package clusterfile

import _ "embed"

// schema is generated from the sections as they are written: go test ./clusterfile -run TestSchema -update.
//
//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema of cluster.yaml, for editors and other checkers.
// It knows keys, types and choices; what needs more than one value is for [Load].
func Schema() []byte { return append([]byte(nil), schema...) }
