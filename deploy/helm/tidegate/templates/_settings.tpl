{{- /* The server.properties of all gateways.  What differs between pods is in their environment. */ -}}
{{- define "tidegate.properties" -}}
{{- $secrets := "/etc/tidegate/secrets" -}}
{{- $values := .Values -}}
config.providers=dir,file
config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
config.providers.dir.param.allowed.paths=/etc/tidegate
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.file.param.allowed.paths=/etc/tidegate
{{- if .Values.playground }}
metadata.log=memory:
object.store=memory:
{{- else }}
metadata.log={{ if .Values.log.secretKey }}${dir:{{ $secrets }}:{{ .Values.log.secretKey }}}{{ else }}{{ .Values.log.url }}{{ end }}
object.store={{ .Values.store.url }}
{{- end }}
{{- $listeners := list -}}
{{- $protocols := list -}}
{{- $proxies := list -}}
{{- range .Values.listeners -}}
{{- $listeners = append $listeners (printf "%s://0.0.0.0:%d" .name (int .port)) -}}
{{- $protocols = append $protocols (printf "%s:%s" .name .protocol) -}}
{{- if and .external .external.proxyProtocol -}}{{- $proxies = append $proxies .name -}}{{- end -}}
{{- end }}
listeners={{ join "," $listeners }}
listener.security.protocol.map={{ join "," $protocols }}
{{- with $proxies }}
proxy.protocol.listeners={{ join "," . }}
{{- end }}
allow.plaintext.listeners={{ .Values.allowPlaintext }}
{{- range .Values.listeners -}}
{{- $prefix := printf "listener.name.%s" (lower .name) -}}
{{- with .tls }}
{{- include "tidegate.stores" (list $values $prefix .secret (ne (.clientAuth | default "none") "none")) }}
{{ $prefix }}.ssl.client.auth={{ .clientAuth | default "none" }}
{{- end }}
{{- with .sasl }}
{{ $prefix }}.sasl.enabled.mechanisms={{ join "," .mechanisms }}
{{- with .plainKey }}
{{ $prefix }}.plain.sasl.jaas.config=${dir:{{ $secrets }}:{{ . }}}
{{- end }}
{{- end }}
{{- range $name, $value := .settings }}
{{ $prefix }}.{{ $name }}={{ include "tidegate.text" $value }}
{{- end }}
{{- end }}
peer.listener=0.0.0.0:{{ .Values.peers.port }}
{{- with .Values.peers.tls.secret }}
peer.security.protocol=SSL
{{- include "tidegate.stores" (list $values "listener.name.peer" . true) }}
listener.name.peer.ssl.client.auth=required
{{- end }}
admin.listener=0.0.0.0:{{ .Values.admin.port }}
{{- with .Values.admin.tls.secret }}
admin.security.protocol=SSL
{{- include "tidegate.stores" (list $values "listener.name.admin" . false) }}
{{- end }}
{{- if .Values.secrets.name }}
{{- range $setting, $key := dict "peer.token" .Values.secrets.peerToken "admin.token" .Values.secrets.adminToken "metadata.secret.key" .Values.secrets.metadataSecretKey "delegation.token.secret.key" .Values.secrets.delegationTokenKey }}
{{- if $key }}
{{ $setting }}=${dir:{{ $secrets }}:{{ $key }}}
{{- end }}
{{- end }}
{{- end }}
drain.timeout.ms={{ mul 1000 .Values.drainTimeoutSeconds }}
{{- if .Values.cache.enabled }}
disk.cache.dir=/var/cache/tidegate/segments
disk.cache.max.bytes={{ int64 .Values.cache.maxBytes }}
{{- end }}
{{- range $name, $value := .Values.settings }}
{{ $name }}={{ include "tidegate.text" $value }}
{{- end }}
{{- end -}}

{{- /* The stores of a listener: (values, prefix, Secret, whether certificates of others are checked). */ -}}
{{- define "tidegate.stores" -}}
{{- $values := index . 0 -}}
{{- $prefix := index . 1 -}}
{{- $folder := printf "/etc/tidegate/tls/%s" (index . 2) -}}
{{- if $values.tls.keystore }}
{{ $prefix }}.ssl.keystore.location={{ $folder }}/{{ $values.tls.keystore }}
{{- else }}
{{ $prefix }}.ssl.keystore.certificate.chain=${dir:{{ $folder }}:tls.crt}
{{ $prefix }}.ssl.keystore.key=${dir:{{ $folder }}:tls.key}
{{- end }}
{{- if index . 3 }}
{{ $prefix }}.ssl.truststore.location={{ $folder }}/{{ $values.tls.truststore }}
{{- end }}
{{- end -}}

{{- /* The names of all Secrets of TLS, once each. */ -}}
{{- define "tidegate.tlsSecrets" -}}
{{- $found := list .Values.peers.tls.secret .Values.admin.tls.secret -}}
{{- range .Values.listeners }}{{ if .tls }}{{ $found = append $found .tls.secret }}{{ end }}{{ end -}}
{{- $found | compact | uniq | sortAlpha | toJson -}}
{{- end -}}

{{- /* (root, separator): NAME://HOST:PORT of each listener. */ -}}
{{- define "tidegate.advertised" -}}
{{- $root := . -}}
{{- $found := list -}}
{{- range .Values.listeners -}}
{{- $host := include "tidegate.podHost" $root -}}
{{- $port := toString (int .port) -}}
{{- with .external -}}
{{- if eq .type "NodePort" -}}
{{- $host = .host | default "$(HOST_IP)" -}}
{{- $port = printf "%d$(POD_INDEX)" (int (.nodePortPrefix | default 31)) -}}
{{- else -}}
{{- $host = .host -}}
{{- $port = toString (int .port) -}}
{{- end -}}
{{- end -}}
{{- $found = append $found (printf "%s://%s:%s" .name $host $port) -}}
{{- end -}}
{{- join "," $found -}}
{{- end -}}
