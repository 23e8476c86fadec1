"""Handlers for stored knowledge, learnings and inquiries: read and change those of the principal's own senders."""

import json
from collections.abc import Awaitable, Callable

from moot.daemon.principal import Principal
from moot.daemon.requests.choices import choose, fill_page
from moot.daemon.requests.masking import Redact, mask_fields
from moot.daemon.requests.reply import Reply
from moot.domain import learning as learning_
from moot.domain.errors import BadRequest, NotFound
from moot.domain.inquiry import Inquiry, InquiryStatus, check_answer, make_unknown_error
from moot.domain.knowledge import (
    Knowledge,
    KnowledgeCategory,
    KnowledgeReader,
    add_temporal_tag,
    check_entry,
    normalize_key,
    parse_category,
    parse_source_class,
)
from moot.domain.learning import Learning, LearningFilter, dump_stats
from moot.domain.near_names import suggest_name
from moot.domain.ports.clock import Clock
from moot.domain.ports.knowledge import Inquiries, KnowledgeStore, Learnings
from moot.domain.text import clean
from moot.wire import moot_pb2 as pb

_PAGE = 500
_FOUND = 50
_DAY = 86_400.0
# What may contain a secret.
_READ_TEXTS = ("key", "query")
_CHANGED_TEXTS = ("key", "content", "tags", "source")

_View = Callable[[pb.ReadKnowledgeMsg, str], Awaitable[pb.KnowledgePage]]
_Change = Callable[[pb.ChangeKnowledgeMsg, str], Awaitable[pb.KnowledgeChanged]]


class KnowledgeRequests:
    def __init__(
        self,
        *,
        knowledge: KnowledgeStore,
        learnings: Learnings,
        inquiries: Inquiries,
        clock: Clock,
        redact: Redact,
    ) -> None:
        self._redact = redact
        self._knowledge = knowledge
        self._learnings = learnings
        self._inquiries = inquiries
        self._clock = clock
        self._views: dict[str, _View] = {
            "entries": self._list_entries,
            "versions": self._list_versions,
            "learnings": self._list_learnings,
            "stats": self._count_learnings,
            "inquiries": self._list_inquiries,
        }
        self._changes: dict[str, _Change] = {
            "save": self._save,
            "forget": self._forget,
            "clean": self._clean,
            "answer": self._answer,
            "dismiss": self._dismiss,
        }

    async def read_knowledge(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.read_knowledge
        mask_fields(request, _READ_TEXTS, self._redact)
        view = choose(self._views, request.view, "view")
        reply.send(pb.ServerMessage(knowledge_page=await view(request, principal.sender(request.sender))))

    async def change_knowledge(self, message: pb.ClientMessage, principal: Principal, reply: Reply) -> None:
        request = message.change_knowledge
        mask_fields(request, _CHANGED_TEXTS, self._redact)
        change = choose(self._changes, request.change, "change")
        reply.send(pb.ServerMessage(knowledge_changed=await change(request, principal.sender(request.sender))))

    # ---- knowledge ----

    async def _list_entries(self, request: pb.ReadKnowledgeMsg, owner: str) -> pb.KnowledgePage:
        category = parse_category(request.category) if request.category else None
        reader = KnowledgeReader(owner)
        if request.query:
            found = await self._knowledge.search(reader, clean(request.query), category=category, limit=_FOUND)
            return pb.KnowledgePage(entries=map(_entry_info, found))
        found = await self._knowledge.list_newest(reader, category=category, after=request.after, limit=_PAGE)
        page = pb.KnowledgePage()
        if (last := fill_page(page.entries, found, _entry_info, most=_PAGE)) is not None:
            page.next_after = last.key
        return page

    async def _list_versions(self, request: pb.ReadKnowledgeMsg, owner: str) -> pb.KnowledgePage:
        key = normalize_key(request.key)
        found = await self._knowledge.list_versions(KnowledgeReader(owner), key)
        if not found:
            raise await self._missing(owner, key)
        return pb.KnowledgePage(entries=map(_entry_info, found))

    async def _save(self, request: pb.ChangeKnowledgeMsg, owner: str) -> pb.KnowledgeChanged:
        category = parse_category(request.category)
        item = Knowledge(
            owner=owner,
            key=normalize_key(request.key),
            category=category,
            content=clean(request.content),
            tags=add_temporal_tag([" ".join(clean(tag).split()) for tag in request.tags], category),
            source=" ".join(clean(request.source).split()),
            source_class=parse_source_class(request.source_class),
            created_at=self._clock.now(),
        )
        saved = await self._knowledge.save(check_entry(item))
        return pb.KnowledgeChanged(version=saved.version, is_new=saved.is_new)

    async def _forget(self, request: pb.ChangeKnowledgeMsg, owner: str) -> pb.KnowledgeChanged:
        key = normalize_key(request.key)
        count = await self._knowledge.forget(owner, key)
        if not count:
            raise await self._missing(owner, key)
        return pb.KnowledgeChanged(count=count)

    async def _missing(self, owner: str, key: str) -> NotFound:
        known = await self._knowledge.list_newest(KnowledgeReader(owner), limit=_PAGE)
        near = suggest_name(key, [item.key for item in known])
        return NotFound(f"there is no knowledge {key!r}", fix=f"{near}`moot knowledge` lists it.")

    # ---- learnings ----

    async def _list_learnings(self, request: pb.ReadKnowledgeMsg, owner: str) -> pb.KnowledgePage:
        category = learning_.parse_category(request.category) if request.category else None
        if request.query:
            found = await self._learnings.search(owner, clean(request.query), category=category, limit=_FOUND)
            return pb.KnowledgePage(learnings=map(_learning_info, found))
        found = await self._learnings.list_all(owner, after=request.after, limit=_PAGE)
        page = pb.KnowledgePage(learnings=[_learning_info(each) for each in found if category in (None, each.category)])
        if len(found) == _PAGE:
            page.next_after = found[-1].id
        return page

    async def _count_learnings(self, request: pb.ReadKnowledgeMsg, owner: str) -> pb.KnowledgePage:
        return pb.KnowledgePage(stats=json.dumps(dump_stats(await self._learnings.count(owner))))

    async def _clean(self, request: pb.ChangeKnowledgeMsg, owner: str) -> pb.KnowledgeChanged:
        days = request.older_than_days if request.HasField("older_than_days") else None
        wanted = LearningFilter(
            id=request.learning_id,
            category=learning_.parse_category(request.category) if request.category else None,
            max_confidence=request.max_confidence if request.HasField("max_confidence") else None,
            before=None if days is None else self._clock.now() - days * _DAY,
        )
        if wanted.is_empty:
            raise BadRequest("nothing says which learnings to delete", fix="Give an id or a condition.")
        found = await self._learnings.clean(owner, wanted, dry_run=request.dry_run)
        if request.learning_id and not found:
            raise NotFound(f"there is no learning {request.learning_id!r}", fix="`moot learning list` lists them.")
        return pb.KnowledgeChanged(count=len(found))

    # ---- inquiries ----

    async def _list_inquiries(self, request: pb.ReadKnowledgeMsg, owner: str) -> pb.KnowledgePage:
        status = None if request.all else InquiryStatus.PENDING
        found = await self._inquiries.list_all(owner, status=status, limit=_PAGE)
        return pb.KnowledgePage(inquiries=map(_inquiry_info, found))

    async def _answer(self, request: pb.ChangeKnowledgeMsg, owner: str) -> pb.KnowledgeChanged:
        answer, inquiry = check_answer(request.content), await self._find_inquiry(request, owner)
        category = parse_category(request.category or KnowledgeCategory.FACT)
        item = Knowledge(
            owner=owner,
            key=normalize_key(inquiry.topic),
            category=category,
            content=f"{inquiry.question}\n{answer}",
            tags=add_temporal_tag(["inquiry"], category),
            source="answer to an inquiry",
            # The question may contain untrusted text.
            taint=inquiry.taint,
            created_at=self._clock.now(),
        )
        # Saved first: what is saved twice after a crash is one version.
        saved = await self._knowledge.save(check_entry(item))
        await self._close(inquiry, InquiryStatus.RESOLVED, answer)
        return pb.KnowledgeChanged(count=1, version=saved.version, is_new=saved.is_new)

    async def _dismiss(self, request: pb.ChangeKnowledgeMsg, owner: str) -> pb.KnowledgeChanged:
        await self._close(await self._find_inquiry(request, owner), InquiryStatus.DISMISSED)
        return pb.KnowledgeChanged(count=1)

    async def _find_inquiry(self, request: pb.ChangeKnowledgeMsg, owner: str) -> Inquiry:
        """Return the pending inquiry with this id, or with an id that begins so."""
        pending = await self._inquiries.list_all(owner, status=InquiryStatus.PENDING, limit=_PAGE)
        found = [each for each in pending if request.inquiry_id and each.id.startswith(request.inquiry_id)]
        if len(found) != 1:
            raise make_unknown_error(request.inquiry_id, [each.id for each in pending])
        return found[0]

    async def _close(self, inquiry: Inquiry, status: InquiryStatus, answer: str = "") -> None:
        now = self._clock.now()
        if await self._inquiries.close(inquiry.key.sender, inquiry.id, status, answer=answer, now=now) is None:
            raise make_unknown_error(inquiry.id, [])


def _entry_info(item: Knowledge) -> pb.KnowledgeEntry:
    return pb.KnowledgeEntry(
        key=item.key,
        version=item.version,
        category=item.category,
        content=item.content,
        tags=item.tags,
        source=item.source,
        source_class=item.source_class,
        asset_label=item.asset_label,
        created_at=item.created_at,
        taint=",".join(sorted(item.taint)),
        agent=item.agent,
    )


def _learning_info(each: Learning) -> pb.LearningInfo:
    return pb.LearningInfo(
        learning_id=each.id,
        trigger=each.trigger,
        error_pattern=each.pattern,
        diagnosis=each.diagnosis,
        fix=each.fix,
        category=each.category,
        confidence=each.confidence,
        occurrences=each.occurrences,
        taint=",".join(sorted(each.taint)),
        created_at=each.created_at,
        updated_at=each.updated_at,
    )


def _inquiry_info(inquiry: Inquiry) -> pb.InquiryInfo:
    return pb.InquiryInfo(
        inquiry_id=inquiry.id,
        agent=inquiry.key.agent,
        sender=inquiry.key.sender,
        topic=inquiry.topic,
        question=inquiry.question,
        context=inquiry.context,
        priority=inquiry.priority,
        status=inquiry.status,
        created_at=inquiry.created_at,
        asked_at=inquiry.asked_at,
        answer=inquiry.answer,
        taint=",".join(sorted(inquiry.taint)),
    )
