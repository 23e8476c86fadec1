"""Titles of archives and conversations: the first sentence of a summary, cut to a length. Pure."""

import re

TITLE_LENGTH = 60

# Characters that end sentences; the second group needs no space after it.
_STOP = re.compile("(?P<latin>[.!?…]+)|(?P<other>[。！？｡．।॥؟۔።։။។]+)")
_CLOSERS = "\"'”’»›)]」』】）》"
_HEADING = re.compile(r"#{1,6}\s+(?P<text>.*?)\s*#*$|(?P<bold>\*\*|__)(?P<line>[^*_]+)(?P=bold)[:：]?$")
_BULLET = re.compile(r"(?:>\s*)*(?:[-*+•]\s+|\d{1,3}[.)]\s+)?")
_ITEM = re.compile(r"(?:>\s*)*(?:[-*+•]|\d{1,3}[.)])\s")
_RULE = re.compile(r"(?:[-*_=~`|:\s]{3,}|(?:```|~~~).*)$")
_LABEL = re.compile(
    r"(?:title|summary|overview|conversation summary|titel|zusammenfassung|titre|résumé|título|resumen|标题|摘要|总结)"
    r"\s*(?:[:：]\s*|$)",
    re.IGNORECASE,
)
_LINK = re.compile(r"!?\[(?P<text>[^\[\]]*)\]\([^()\s]*\)")
_STRONG = re.compile(r"(\*\*|__|~~)(?=\S)(.+?)(?<=\S)\1")
_EMPHASIS = re.compile(r"(?<!\w)([*_`])(?=\S)(.+?)(?<=\S)\1(?!\w)")
_ACRONYM = re.compile(r"(?:[^\W\d]\.)+[^\W\d]")
# What an abbreviation may be joined to: l'art. 5, Dipl.-Ing., Hauptstr. 5.
_JOINT = re.compile(r"(?:[dl]|qu)['’]|.*-|.+(?=str$)")
# How much of a summary is read for its title, which is in its first sentence.
_MOST_READ = 8_192


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A full stop after these does not end a sentence: the name, word or example they belong to follows.
_OPEN = _words(
    """abb abs approx av avda avg bspw bzw ca capt cf col dept dipl dr dra ed ee evtl ex exkl fr frl gen ggf gov gral hr
    hrsg ing inkl insb lt mag messrs mio mlle mme mr mrd mrs ms mt ph.d prof rep rev sen sgt sog sr sra srta st str tel
    tsd u ud uds vgl vs zzgl"""
)
# The same, if a number follows.
_BEFORE_NUMBERS = _words("art bd cap chap fig kap no nr núm nº p par pos pp pág s sec vol")
# These may end a sentence, and do if a capital letter follows.
_MAYBE = _words("al co corp etc inc jr ltd usf usw uu uvm jan feb mar apr jun jul aug sep sept oct okt nov dec dez")
_MONTHS = _words(
    """januar februar märz april mai juni juli august september oktober november dezember january february march may
    june july october december"""
)


def title_of(summary: str) -> str:
    """Return the first sentence of a summary without its Markdown, at most sixty characters."""
    return clip_title(_first_sentence(_first_paragraph(summary[:_MOST_READ])))


def clip_title(text: str) -> str:
    """Return the text on one line, at most sixty characters, never cut inside a visible character."""
    line = " ".join(text.split())
    if len(line) <= TITLE_LENGTH:
        return line
    # Large character tables: loaded only if a title is too long.
    from wcwidth import iter_graphemes  # noqa: PLC0415

    kept = ""
    for grapheme in iter_graphemes(line):
        if len(kept) + len(grapheme) > TITLE_LENGTH:
            break
        kept += grapheme
    # Only a character longer than a whole title is cut.
    return kept.rstrip() or line[:TITLE_LENGTH]


def _first_paragraph(text: str) -> str:
    """Return the first heading or paragraph with content, without Markdown. A label such as "Summary:" has none."""
    found: list[str] = []
    for line in map(str.strip, text.splitlines()):
        heading = _HEADING.match(line)
        if found and (not line or heading or _ITEM.match(line) or _RULE.match(line)):
            break
        if not line or _RULE.match(line):
            continue
        if heading:
            plain = _LABEL.sub("", _plain(heading["text"] or heading["line"] or ""), count=1)
            if plain:
                return plain
            continue
        plain = _plain(line if found else _BULLET.sub("", line, count=1))
        found += filter(None, [plain if found else _LABEL.sub("", plain, count=1)])
    return " ".join(found) or text


def _plain(line: str) -> str:
    line = _LINK.sub(lambda link: link["text"], line)
    for mark in (_STRONG, _EMPHASIS):
        line = mark.sub(lambda found: str(found[2]), line)
    return line.strip()


def _first_sentence(text: str) -> str:
    line = " ".join(text.split())
    for stop in _STOP.finditer(line):
        end = stop.end()
        while end < len(line) and line[end] in _CLOSERS:
            end += 1
        if stop["other"] or _ends_sentence(line, stop, end):
            return line[:end]
    return line


def _ends_sentence(line: str, stop: re.Match[str], end: int) -> bool:
    if end == len(line):
        return True
    if not line[end].isspace():
        return False
    after = line[end:].lstrip()
    if end > stop.end() and after[:1].islower():
        # “Why?” asked Ada: the sentence continues after the quotation.
        return False
    if stop[0] in ("…", "..."):
        return not after[:1].islower()
    return stop[0] != "." or not _is_abbreviated(line[: stop.start()].rsplit(" ", 1)[-1], after)


def _is_abbreviated(word: str, after: str) -> bool:
    """Whether the full stop after the word belongs to an abbreviation."""
    word = word.lstrip("\"'“‘«‹([¿¡").casefold()
    joined = _JOINT.match(word)
    last = word[joined.end() :] if joined else word
    if last in _BEFORE_NUMBERS:
        return after[:1].isdigit()
    if last in _MAYBE:
        return not after[:1].isupper()
    if word.isdigit() and len(word) <= 2:
        # An ordinal number, as some languages write it: 3. October.
        return after[:1].islower() or re.split(r"\W", after.casefold(), maxsplit=1)[0] in _MONTHS
    return last in _OPEN or (len(word) == 1 and word.isalpha()) or _ACRONYM.fullmatch(word) is not None
