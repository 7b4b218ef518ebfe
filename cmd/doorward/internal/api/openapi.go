package api

import _ "embed"

// OpenAPI describes the API: OpenAPI 3.1, in YAML.
//
//go:embed openapi.yaml
var OpenAPI []byte
