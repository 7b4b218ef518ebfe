package api

import _ "embed"

// OpenAPI describes the API: OpenAPI 3.0, in YAML.
//
//go:embed openapi.yaml
var OpenAPI []byte
