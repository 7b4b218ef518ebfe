<?php
// Reads requests in the ways of PHP. Answers as node.js does.

$found = [];

function found(string $way, mixed $value): void {
    global $found;
    if (is_object($value)) {
        $value = (array) $value;
    }
    if (is_array($value)) {
        foreach ($value as $v) {
            found($way, $v);
        }
    } elseif ($value !== null) {
        $found[] = [$way, base64_encode((string) $value)];
    }
}

// walk follows keys, in any letter case if $fold is set.
function walk(mixed $value, array $keys, bool $fold = false): mixed {
    foreach ($keys as $key) {
        if (is_object($value)) {
            $value = (array) $value;
        }
        if (!is_array($value)) {
            return is_string($value) ? $value : null;
        }
        if ($fold) {
            $value = array_change_key_case($value);
            $key = strtolower($key);
        }
        $value = $value[$key] ?? null;
    }
    return $value;
}

// keys are those that PHP keeps a field under.
function keys(string $name): array {
    parse_str(urlencode($name) . '=1', $parsed);
    $keys = [];
    while (is_array($parsed)) {
        $keys[] = (string) array_key_first($parsed);
        $parsed = reset($parsed);
    }
    return $keys;
}

[$kind, $source] = explode(' ', $_SERVER['HTTP_DOORWARD_TEST_SOURCE'] . ' ');
$input = file_get_contents('php://input');
$type = $_SERVER['CONTENT_TYPE'] ?? null;
$path = fn () => explode('/', preg_replace('~^\w+://[^/]*~', '', explode('?', $_SERVER['REQUEST_URI'])[0]));

switch ($kind) {
    case 'form':
    case 'query':
        $keys = keys($source);
        found('$_POST', walk($_POST, $keys));
        found('$_GET', walk($_GET, $keys));
        found('$_REQUEST', walk($_REQUEST, $keys));
        found('$_POST, any case', walk($_POST, $keys, true));
        found('$_GET, any case', walk($_GET, $keys, true));
        if ($type === null || stripos($type, 'urlencoded') !== false) {
            parse_str($input, $parsed);
            found('parse_str', walk($parsed, $keys));
        }
        if ($type !== null && stripos($type, 'json') !== false) {
            found('json_decode', walk(json_decode($input, true), $keys));
        }
        break;
    case 'json':
        $keys = explode('.', $source);
        if ($type === null || stripos($type, 'json') !== false) {
            found('json_decode', walk(json_decode($input, true), $keys));
            found('json_decode, objects', walk(json_decode($input), $keys));
            found('json_decode, any case', walk(json_decode($input, true), $keys, true));
        }
        found('$_REQUEST', walk($_REQUEST, $keys));
        break;
    case 'header':
        found('$_SERVER', $_SERVER['HTTP_' . strtr(strtoupper($source), '-', '_')] ?? null);
        found('getallheaders', walk(getallheaders(), [$source], true));
        break;
    case 'path':
        $pattern = explode('/', $source);
        foreach ($pattern as $i => $segment) {
            if (($segment[0] ?? '') === '{') {
                found('rawurldecode', rawurldecode($path()[$i] ?? ''));
                found('urldecode', urldecode($path()[$i] ?? ''));
                found('$_GET', $_GET[trim($segment, '{}')] ?? null);
                break;
            }
            if (strcasecmp($path()[$i] ?? '', $segment) !== 0) {
                break;
            }
        }
        break;
    case 'basic':
        found('PHP_AUTH_USER', $_SERVER['PHP_AUTH_USER'] ?? null);
        if (isset($_SERVER['HTTP_AUTHORIZATION'])) {
            found('base64_decode', explode(':', base64_decode(substr($_SERVER['HTTP_AUTHORIZATION'], 6)))[0]);
        }
}
echo json_encode($found);
