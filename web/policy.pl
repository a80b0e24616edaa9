# What the page may load: its own files, and the one script that trunk writes into it, by its hash. Browsers read a policy in the
# document wherever it is served from, also where nobody can set headers.
use strict;
use warnings;
use Digest::SHA qw(sha256_base64);

my $path = "$ENV{TRUNK_STAGING_DIR}/index.html";
open(my $in, '<:raw', $path) or die "$path: $!";
my $page = do { local $/; <$in> };
close $in;

my @hashes;
while ($page =~ m{<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>}gs) {
    my $hash = sha256_base64($1);
    $hash .= '=' while length($hash) % 4;
    push @hashes, "'sha256-$hash'";
}
@hashes == 1 or die "one inline script was expected, not " . @hashes;
my $policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval' @hashes; style-src 'self'; img-src 'self' data:; "
    . "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'";
$page =~ s{(<meta charset="utf-8">)}{$1\n<meta http-equiv="Content-Security-Policy" content="$policy">} or die "no place for the policy";

open(my $out, '>:raw', $path) or die "$path: $!";
print $out $page;
close $out or die "$path: $!";
